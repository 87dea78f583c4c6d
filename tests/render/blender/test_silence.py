"""Quiet: what it leaves behind."""

from __future__ import annotations

import gc
import os

import pytest

from ident.render.blender.silence import silent


def test_what_is_written_meanwhile_is_lost_and_the_rest_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"before ")
    with silent(1):
        os.write(1, b"chatter")
        os.write(2, b"trouble")
    os.write(1, b"after")
    assert capfd.readouterr() == ("before after", "trouble")


def test_nothing_is_left_to_the_garbage_collector() -> None:
    with silent(1):
        pass
    gc.collect()
    for _ in range(10):
        with silent(1):
            pass
    assert gc.collect() == 0
