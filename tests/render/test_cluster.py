"""What there is, as Ray will see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ray._private.accelerators.nvidia_gpu import NvidiaGPUAcceleratorManager

from ident.render import cluster


@pytest.mark.parametrize(
    ("shown", "count"), [(None, 3), ("", 0), ("-1", 0), ("NoDevFiles", 0), ("2", 1), ("0,2", 2), ("0,1,2,3", 3)]
)
def test_gpus_that_are_hidden_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: str | None, count: int
) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cluster, "DRIVER", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert cluster.gpus_there(None) == count
    seen = NvidiaGPUAcceleratorManager.get_current_process_visible_accelerator_ids()
    assert count <= (3 if seen is None else len(seen))
