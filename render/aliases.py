"""Names for types that many modules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]
Uint8s = npt.NDArray[np.uint8]

Tell = Callable[[int, int], object]
"""Is told how many are done, of how many."""
