"""Signals that wait."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from ident.render.signals import later


class Told(Exception):
    """What the handler of before raises."""


def tell(*_: object) -> None:
    raise Told


@pytest.mark.parametrize("taken", [False, True])
def test_a_signal_waits_for_the_handler_of_before(monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    """Also where a library that starts meanwhile takes the signal for itself, as Ray does."""
    before = signal.signal(signal.SIGTERM, tell)
    monkeypatch.setattr(signal, "signal", signal.signal)
    done = []
    try:
        with pytest.raises(Told), later(signal.SIGTERM):  # noqa: PT012
            if taken:
                signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
                usual = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
                assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
                signal.signal(signal.SIGUSR1, usual)
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("the rest")
        assert done == ["the rest"]
        assert signal.getsignal(signal.SIGTERM) == tell
    finally:
        signal.signal(signal.SIGTERM, before)
