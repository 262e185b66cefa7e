"""`write`: one HTML file that shows a model's graph, what was compiled, what ran, and why.

    x = F.placeholder("float32", [1])
    graphmill.report.write(session, "report.html", fetches=x * 2.0, feed_dict={x: [1.0]}, steps=20)

The file needs no network. `collect` returns what it shows as plain values, `render` the page for
these. `graphmill report MODEL` does this on the command line. See docs/howto/report.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import files
from graphmill.report.page import render
from graphmill.report.report_data import collect

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from graphmill.saved.saved_model import SavedModel
    from graphmill.session.session import Session

__all__ = ["collect", "render", "write"]


def write(
    model: Session | SavedModel,
    path: str | os.PathLike[str],
    *,
    fetches: Any = None,
    feed_dict: Mapping[Any, Any] | None = None,
    steps: int = 0,
    title: str = "",
) -> None:
    """Write a report to a file, which is replaced if it exists.

    Args:
        model: a session, or a SavedModel that was loaded.
        path: the file.
        fetches, feed_dict, steps, title: see `collect`.

    Raises:
        InvalidArgumentError: see `collect`.
        OpError: a step failed, or the file cannot be written.
    """
    data = collect(model, fetches, feed_dict, steps=steps, title=title)
    files.write(files.as_path(path), render(data).encode())
