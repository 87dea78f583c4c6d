"""The ten latents of 3DIdent: names, units, scales, sampling by (seed, split, index), and reading them from a file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ident.render.aliases import Float32s, Float64s
from ident.render.errors import Failed, Impossible
from ident.render.store.files import open_plain, read_npy
from ident.render.worlds.factors import Factor, Interval, check_raw

LARGEST = 2**30
"""Bytes of raw latents that are read at once: those of 25 million images."""

QUARTER = float(np.pi / 2)

LATENTS = (
    Factor("x", Interval(-1, 1), "object position, towards the camera", "m", 3.0),
    Factor("y", Interval(-1, 1), "object position, to the right", "m", 3.0),
    Factor("z", Interval(-1, 1), "object position, upwards", "m", 3.0),
    Factor("alpha", Interval(-1, 1), "object rotation about x", "rad", QUARTER),
    Factor("beta", Interval(-1, 1), "object rotation about y", "rad", QUARTER),
    Factor("gamma", Interval(-1, 1), "object rotation about z", "rad", QUARTER),
    Factor("spotlight angle", Interval(-1, 1), "where on its circle the spotlight stands", "rad", QUARTER),
    Factor("object hue", Interval(-1, 1), "hue of the object", "rad", QUARTER),
    Factor("spotlight hue", Interval(-1, 1), "hue of the spotlight", "rad", QUARTER),
    Factor("background hue", Interval(-1, 1), "hue of the ground", "rad", QUARTER),
)
NAMES = tuple(latent.name for latent in LATENTS)
SCALES: Float64s = np.array([latent.scale for latent in LATENTS])
SCALES.flags.writeable = False

BLOCKS = 3  # Philox gives four words a block, and an index owns twelve, of which it uses ten


def sample(*, seed: int, split: str, start: int, n: int) -> Float32s:
    """Raw latents (n, 10) of the indices start to start + n, uniform in [-1, 1).

    Index i depends on (seed, split, i) alone: the generator counts, and i says where.
    """
    for name, value, most in (("seed", seed, 2**64), ("start", start, 2**62), ("n", n, 2**40)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value < most:
            raise Impossible(f"{name} {value!r}: give a whole number from 0 to {most - 1}")
    start, n = int(start), int(n)
    stream = int.from_bytes(hashlib.sha256(split.encode(errors="surrogateescape")).digest()[:8], "little")
    generator = np.random.Philox(key=np.array([seed, stream], dtype=np.uint64), counter=BLOCKS * start)
    words = generator.random_raw(4 * BLOCKS * n).reshape(n, 4 * BLOCKS)[:, : len(LATENTS)]
    # The upper 24 bits, the most that a float32 in [-1, 1) holds without rounding.
    return ((words >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23)) - np.float32(1)


def to_scene_values(raw: npt.ArrayLike) -> Float64s:
    """Scene values (..., 10) of raw latents (..., 10)."""
    values = np.asarray(raw, dtype=np.float64)
    if values.shape[-1:] != SCALES.shape:
        raise Impossible(f"raw latents: the shape is {values.shape}, not (..., {len(LATENTS)})")
    return values * SCALES


def check(raw: npt.NDArray[np.generic], what: str = "raw latents") -> Float32s:
    """The raw latents as float32 (n, 10), or an error that says what is wrong with them."""
    return check_raw(raw, LATENTS, what)


def read(path: Path) -> Float32s:
    """Raw latents (n, 10) from a .npy file, checked."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            raw = read_npy(file, LARGEST)
    except Failed as error:
        raise Impossible(f"{error}; give a .npy file of raw latents") from error
    except OSError as error:
        raise Impossible(f"{path}: {error.strerror or error}; give a .npy file of raw latents") from error
    except Exception as error:  # numpy raises half a dozen kinds on a hostile header
        raise Impossible(f"{path}: not a .npy file of numbers ({error})") from error
    return check(raw, str(path))
