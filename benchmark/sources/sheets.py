"""Neighbours in a representation, and images as one sheet."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def neighbours(representation: Tensor, rows: int, columns: int) -> Tensor:
    """Each of the first rows of a representation (n, k), and those nearest to it (rows, columns), by number."""
    away = torch.cdist(representation[:rows], representation)
    away[torch.arange(len(away)), torch.arange(len(away))] = -1
    nearest: Tensor = away.topk(min(columns, len(representation)), largest=False).indices
    return nearest


def sheet(images: Tensor) -> bytes:
    """A PNG of images (rows, columns, C, H, W) from 0 to 255, grey or in colours."""
    pixels = images.movedim(2, -1).squeeze(-1).clamp(0, 255).to(torch.uint8).cpu().numpy()
    file = BytesIO()
    Image.fromarray(np.concatenate(np.concatenate(pixels, 1), 1)).save(file, "png")
    return file.getvalue()
