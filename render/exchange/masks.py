"""The published KITTI Masks: sequences of silhouettes of pedestrians, and where each one is (Klindt et al., 2021)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ident.render.aliases import Float32s, Uint8s
from ident.render.errors import Failed
from ident.render.exchange.pickles import read_pickle
from ident.render.store.files import read

FILE = "kitti_peds_v2.pickle"
LARGEST = 2**31
"""Bytes of the file."""
SIDE, MOST_SEQUENCES = 64, 100_000
LATENTS = ("y", "x", "area")

Sequences = list[tuple[Uint8s, Float32s]]
"""Of each sequence its masks (T, H, W) of 0 and 1, and their latents (T, 3)."""


def read_masks(path: Path) -> Sequences:
    """The sequences in a published file, checked; those of one frame, which have no pairs, are left out."""
    try:
        return sequences_of(read_pickle(read(path, LARGEST)))
    except (Failed, ValueError) as error:
        raise Failed(f"{path}: {error}") from error
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error


def sequences_of(content: Any) -> Sequences:
    """The sequences of what a file holds."""
    names = "pedestrians", "pedestrians_latents"
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in names):
        raise Failed(f"no dictionary with the lists {' and '.join(names)}")
    masks, latents = (content[name] for name in names)
    if len(masks) != len(latents) or not 1 <= len(masks) <= MOST_SEQUENCES:
        raise Failed(f"{len(masks)} sequences of masks and {len(latents)} of latents; there are to be as many")
    checked = [sequence(number, *pair) for number, pair in enumerate(zip(masks, latents, strict=True))]
    return [(frames, places) for frames, places in checked if len(frames) > 1]


def sequence(number: int, masks: Any, latents: Any) -> tuple[Uint8s, Float32s]:
    """One sequence, checked."""
    if not (isinstance(masks, np.ndarray) and masks.dtype == bool and masks.ndim == 3 and 0 not in masks.shape):
        raise Failed(f"sequence {number}: its masks are {described(masks)}, not bool (T, {SIDE}, {SIDE})")
    if masks.shape[1:] != (SIDE, SIDE):
        raise Failed(f"sequence {number}: its masks are {described(masks)}, not bool (T, {SIDE}, {SIDE})")
    rows = len(masks), len(LATENTS)
    if not (isinstance(latents, np.ndarray) and latents.dtype.kind == "f" and latents.shape == rows):
        raise Failed(f"sequence {number}: its latents are {described(latents)}, not floats {rows}")
    if not np.isfinite(latents).all():
        raise Failed(f"sequence {number}: its latents are not finite")
    return masks.view(np.uint8), latents.astype(np.float32)


def described(value: Any) -> str:
    """What something is, for an error."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
