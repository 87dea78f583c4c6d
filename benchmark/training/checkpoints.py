"""Checkpoints: written whole or not at all, and believed only by their checksum and for the run that wrote them."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch

from ident.benchmark.training.optimizers import State
from ident.render.errors import Failed, Impossible
from ident.render.store.files import open_plain, whole

FORMAT = 2
DIGEST = sha256().digest_size
"""Bytes before a checkpoint: its checksum."""


@dataclass
class Progress:
    """How far a training is, and how it went: a point for each look."""

    step: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if type(self.step) is not int or self.step < 0 or not isinstance(self.seconds, float):
            raise ValueError(f"step {self.step!r} after {self.seconds!r} seconds")
        if not (isinstance(self.history, list) and all(isinstance(point, dict) for point in self.history)):
            raise TypeError("its history is no list of points")


def kept(checkpoint: Path) -> str:
    """What is left of a training that fails."""
    return f"the last good checkpoint is kept: {checkpoint}" if checkpoint.exists() else "no checkpoint was written yet"


def save(checkpoint: Path, recipe: str, state: State, progress: Progress) -> None:
    """Write a checkpoint, whole or not at all; of a model that is finite, or the one before stays."""
    if not all(bool(weights.isfinite().all()) for weights in state.model.parameters()):
        raise Failed(f"a weight is not finite at step {progress.step}; {kept(checkpoint)}")
    written = {
        "format": FORMAT,
        "recipe": recipe,
        "model": state.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer, _ in state.optimizers],
        "scaler": state.scaler.state_dict(),
        "memory": state.memory.state_dict(),
        "progress": vars(progress),
    }
    content = BytesIO()
    torch.save(written, content)
    try:
        with whole(checkpoint) as part:
            part.write_bytes(sha256(content.getbuffer()).digest() + content.getbuffer())
    except OSError as error:
        raise Failed(f"{checkpoint}: {error.strerror}; {kept(checkpoint)}") from error


def differing(theirs: str, ours: str) -> str:
    """What a recipe has otherwise than another, both JSON objects; nothing where they are the same."""
    one, other = json.loads(theirs), json.loads(ours)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return "; ".join(f"of {name} {one.get(name)!r}, not {other.get(name)!r}" for name in names)


def load(checkpoint: Path, recipe: str, state: State) -> Progress:
    """Bring model and optimizers to where a checkpoint left them. Nothing in it is run."""
    try:
        with os.fdopen(open_plain(checkpoint), "rb") as file:
            content = file.read()
        digest, content = content[:DIGEST], content[DIGEST:]
        if sha256(content).digest() != digest:
            raise ValueError("its checksum is another")
        with ZipFile(BytesIO(content)) as archive:
            if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
                raise ValueError("it is packed, and may be of any size")
        with warnings.catch_warnings(action="ignore"):  # of what is no checkpoint at all
            written: dict[str, Any] = torch.load(BytesIO(content), map_location=state.device, weights_only=True)
        version, other = written["format"], differing(written["recipe"], recipe)
    except Failed as error:
        raise Failed(f"{error}; delete it to begin that run anew") from error
    except (
        BadZipFile,
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        OSError,
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:
        raise Failed(f"{checkpoint}: is damaged ({type(error).__name__}); delete it to begin that run anew") from error
    if version != FORMAT:
        raise Impossible(f"{checkpoint}: is of format {version!r}, this version of ident reads {FORMAT}")
    if other:
        raise Impossible(f"{checkpoint}: belongs to another run, {other}; give another --out, or --force")
    try:
        state.model.load_state_dict(written["model"])
        for (optimizer, _), its in zip(state.optimizers, written["optimizers"], strict=True):
            optimizer.load_state_dict(its)
        state.scaler.load_state_dict(written["scaler"])
        state.memory.load_state_dict(written["memory"])
        return Progress(**written["progress"])
    except (RuntimeError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise Failed(f"{checkpoint}: does not fit its run ({error}); delete it to begin that run anew") from error
