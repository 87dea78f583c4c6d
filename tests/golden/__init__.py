"""What `ident` made when this was written: datasets, pairs, first steps of trainings, scores. See test_golden.py."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from ident.benchmark import metrics
from ident.render.store.dataset import Dataset

FOLDER = Path(__file__).parent
Arrays = dict[str, npt.NDArray[Any]]
Command = Callable[..., None]
"""Runs `ident WORDS`, and fails if that does."""

RENDERED = {
    "train": "--n 24 --shard-size 16 --seed 5 --codec fast --passes mask,depth,normal --positives normal(0.25)",
    "test": "--n 80 --seed 6 --split test",
}
PAIRS = {
    "exact": "--n 64 --seed 1",
    "nearest": "--n 64 --seed 2 --pairs nearest --conditional laplace(0.3)",
    "nearest in some": "--n 64 --seed 3 --pairs nearest --conditional gennorm(3,0.4) --latents alpha,beta,gamma",
}
BENCHED = {
    "table1": "--row sphere-vmf1-vmf --row sphere-laplace-vmf --seeds 1",
    "table2": "--row laplace-box-laplace --row normal-box-normal --kind unsupervised --seeds 2",
    "aninfonce": "--row aninfonce-lambda1 --row two-sources-infonce --row two-sources-ensemble",
    "hard-negatives": "--row beside-others",
    "table4": "--row box-normal --row box-laplace --row augmentations --row box-aninfonce --row box-align-uniform "
    "--row supervised --row identity --row untrained",
}
"""Rows by suite: pairs among a batch, one positive each; a curriculum; hard negatives, ensembles; pairs of images."""

TIERS = {
    "mixed": """
samples = 200
model = { side = 3.0, whiten = true }
pairs = { spread = 0.5, region = 0.25, parts = 4 }
supervised = { steps = 20, batch_size = 32, learning_rate = 1e-3, optimizer = "muon", warm_up = 5, constant = 0.3 }
unsupervised = { steps = 20, batch_size = 32, learning_rate = 1e-3, optimizer = "muon", warm_up = 5, constant = 0.3 }
""",
    "images": """
samples = 80
model = { encoder = "resnet18", side = 5.66 }
supervised = { steps = 20, batch_size = 8, learning_rate = 1e-3 }
unsupervised = { steps = 20, batch_size = 8, learning_rate = 1e-3, warm_up = 5 }

[pairs]
scale = 0.25
both = true
groups = 4
""",
}


def machine() -> str:
    """What decides the last digits of its arithmetic: the instructions that its processor knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform()
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return " ".join(flag for flag in flags if flag.startswith(("avx", "amx", "fma")))


def columns(place: Path) -> Arrays:
    """All that a dataset has, by name."""
    data = Dataset(place)
    every = np.arange(len(data))
    stored = {name: data.read_many(name, every) for name in data.manifest.columns}
    return {"latents": data.latents, **stored}


def digests(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, str]:
    """What tells arrays from others."""
    return {name: f"{rows.dtype} {rows.shape} {sha256(rows.tobytes()).hexdigest()}" for name, rows in arrays.items()}


def render(run: Command, split: str, place: Path) -> None:
    """Render a split."""
    run("render", *shlex.split(RENDERED[split].replace("(", r"\(").replace(")", r"\)")), "--size", 16, "--quality",
        "draft", "--out", place)  # fmt: skip


def pairs(run: Command, name: str, folder: Path) -> Arrays:
    """Pairs of the training set."""
    file = folder / "pairs.h5"
    words = shlex.split(PAIRS[name].replace("(", r"\(").replace(")", r"\)"))
    run("pairs", FOLDER / "train", *words, "--index", "flat", "--out", file)
    with h5py.File(file) as stored:
        return {column: stored[column][:] for column in stored}


def benched(run: Command, suite: str, folder: Path) -> dict[str, Any]:
    """The losses and scores of each step of some rows, and what they end with."""
    kind = "images" if suite == "table4" else "mixed"
    tier = folder / f"{kind}.toml"
    tier.write_text(TIERS[kind])
    data = ["--data", FOLDER / "train", "--test-data", FOLDER / "test"] if kind == "images" else []
    run("bench", "--suite", suite, "--tier", tier, *data, "--device", "cpu", "--out", folder / "results",
        *shlex.split(BENCHED[suite]))  # fmt: skip
    results = {}
    for path in sorted((folder / "results").glob("*/*/*/result.json")):
        result = json.loads(path.read_text())
        results[path.parent.name] = {name: result[name] for name in ("history", "scores", "learned")}
    return results


def scores() -> dict[str, Any]:
    """Of stored latents and what was recovered of them."""
    with np.load(FOLDER / "recovered.npz") as stored:
        true, recovered = stored["latents"], stored["recovered"]
    return {
        name: json.loads(json.dumps(asdict(metrics.score(name, true, recovered, seed=7))))
        for name in ("r2", "mcc", "spearman")
    }


def command(*words: object) -> None:
    """`ident WORDS` in a process of its own."""
    subprocess.run([sys.executable, "-m", "ident.cli", *map(str, words)], check=True)


def write() -> None:
    """Write all of it anew."""
    for split in RENDERED:
        render(command, split, FOLDER / split)
    rng = np.random.default_rng(4)
    latents = rng.uniform(-1, 1, (120, 10)).astype(np.float32)
    recovered = np.tanh(latents @ rng.normal(size=(10, 12))) + rng.normal(scale=0.2, size=(120, 12))
    np.savez(FOLDER / "recovered.npz", latents=latents, recovered=recovered.astype(np.float32))
    drawn, trained = Arrays(), dict[str, Any]()
    for name in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            drawn |= {f"{name}: {column}": rows for column, rows in pairs(command, name, Path(folder)).items()}
    np.savez_compressed(FOLDER / "pairs.npz", **drawn)
    for suite in BENCHED:
        with tempfile.TemporaryDirectory() as folder:
            trained[suite] = benched(command, suite, Path(folder))
    pinned = {
        "machine": machine(),
        "datasets": {split: digests(columns(FOLDER / split)) for split in RENDERED},
        "benched": trained,
        "scores": scores(),
    }
    (FOLDER / "golden.json").write_text(json.dumps(pinned) + "\n")
