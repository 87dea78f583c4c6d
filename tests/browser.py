"""A browser for tests: headless Chromium, steered through a pipe by the protocol of its developer tools."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INSTALL = Path(__file__).parents[1] / "docker" / "browser.sh"
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PIPE = 3, 4
"""Where Chromium reads and writes, by `--remote-debugging-pipe`."""


class Page:
    """A page in a window of any size."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self.to_browser, self.replies = to_browser, self.messages(from_browser)
        self.number, self.session = 0, ""
        target = self.ask("Target.getTargets")["targetInfos"][0]["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    @staticmethod
    def messages(source: int) -> Iterator[dict[str, Any]]:
        """What the browser says: JSON with a zero byte behind."""
        text = b""
        while piece := os.read(source, 2**16):
            *whole, text = (text + piece).split(b"\0")
            yield from map(json.loads, whole)

    def until(self, **wanted: Any) -> dict[str, Any]:
        """The next message with these values."""
        for message in self.replies:
            if wanted.items() <= message.items():
                assert "error" not in message, message
                return message
        raise AssertionError(f"the browser ended before it said {wanted}")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command."""
        self.number += 1
        command: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        os.write(
            self.to_browser,
            json.dumps(command | ({"sessionId": self.session} if self.session else {})).encode() + b"\0",
        )
        answer: dict[str, Any] = self.until(id=self.number)["result"]
        return answer

    def open(self, path: Path, width: int, height: int = 1200) -> None:
        """Load a file at a size in pixels."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Page.navigate", url=path.absolute().as_uri())
        self.until(method="Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression, also of a promise."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def picture(self, path: Path, clip: Mapping[str, float] | None = None) -> None:
        """Save what is to be seen, or a part of the page, as PNG."""
        part = {"clip": clip, "captureBeyondViewport": True} if clip else {}
        answer = self.ask("Page.captureScreenshot", format="png", **part)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A browser, which ends at the end; it is installed if it is not there."""
    if not shutil.which("chromium"):
        subprocess.run([INSTALL], check=True)
    its_input, to_browser = os.pipe()
    from_browser, its_output = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (its_input, its_output)]
    browser = subprocess.Popen(
        ["chromium", *ARGUMENTS, f"--user-data-dir={profile}", "about:blank"],
        close_fds=False, preexec_fn=lambda: [os.dup2(*both) for both in zip(ends, PIPE, strict=True)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for end in (its_input, its_output, *ends):
        os.close(end)
    try:
        page = Page(to_browser, from_browser)
        yield page
        page.ask("Browser.close")
    finally:
        os.close(to_browser)
        os.close(from_browser)
        try:
            browser.wait(timeout=20)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
