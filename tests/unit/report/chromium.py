"""A headless Chromium that is driven over a pipe by the DevTools protocol.

Every wait has a limit, after which the error says what the page had not done, and what it logged.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--disable-dev-shm-usage --remote-debugging-pipe"
)

LIMIT = 120.0
"""Seconds in which Chromium must answer; the slowest page takes about ten on a busy machine."""

_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page; messages are JSON that ends with NUL, written to file 3 and read from file 4.

    Args:
        chromium: the browser.
        profile: an empty folder for the browser.
        width, height: the size of the window.
        limit: the seconds within which the browser must answer.
    """

    def __init__(
        self, chromium: str, profile: Path, width: int, height: int, *, limit: float = LIMIT
    ) -> None:
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        flags = [*_FLAGS.split(), f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(their_in), str(their_out), chromium, *flags],
            pass_fds=(their_in, their_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._number = 0
        self._rest = b""
        self._session = ""
        self._limit = limit
        self.events: list[dict[str, Any]] = []
        try:
            self._attach(width, height)
        except BaseException:
            self._end()
            raise

    def _attach(self, width: int, height: int) -> None:
        """Create the page, and ask for its events."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = ""
        try:
            self.send("Browser.close")
            while self._receive("Browser.close", time.monotonic() + self._limit):
                pass
        finally:
            self._end()

    def _end(self) -> None:
        os.close(self._in)
        os.close(self._out)
        self._process.kill()  # it has ended, or does not answer
        self._process.wait()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self._limit
        while True:
            answer = self._read(method, deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self, awaited: str, deadline: float) -> dict[str, Any]:
        """Return the next message.

        Args:
            awaited: what the caller waits for, for the error.
            deadline: until when, by `time.monotonic`.
        """
        while b"\0" not in self._rest:
            read = self._receive(awaited, deadline)
            assert read, f"Chromium has ended before {awaited}"
            self._rest += read
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _receive(self, awaited: str, deadline: float) -> bytes:
        """Return the bytes that Chromium has written; none if it has ended."""
        readable, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
        assert readable, (
            f"no answer from Chromium to {awaited} within {self._limit:g} s; the page logged: "
            f"{self.faults() or 'no error'}"
        )
        return os.read(self._in, 1 << 16)

    def open(self, path: Path, *, dark: bool = False) -> None:
        """Open a file and wait until its scripts have run."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.send("Page.navigate", url=path.as_uri())
        loaded = "Page.loadEventFired"
        deadline = time.monotonic() + self._limit
        while not any(event.get("method") == loaded for event in self.events):
            self.events.append(self._read(loaded, deadline))

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression; a promise is awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key)

    def screenshot(self, path: Path, *, is_whole: bool = True) -> None:
        data = self.send("Page.captureScreenshot", captureBeyondViewport=is_whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def faults(self) -> list[str]:
        """Return the exceptions and the logged errors of the page."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            entry = parameters.get("entry", {})
            if entry.get("level") == "error":
                found.append(entry["text"])
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the page has asked for."""
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]
