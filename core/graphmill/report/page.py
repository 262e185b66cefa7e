"""`render`: the HTML page of a report, in one file without references to others.

All text is escaped by `html.escape`, and data is JSON in which no character can end its element:
names in a model may come from anywhere.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from graphmill.explain.unit_text import bytes_text, time_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ASSETS: Final = Path(__file__).parent / "assets"
_SCRIPTS: Final = ("dom", "groups", "layout", "drawing", "timeline", "main")
_MAX_ROWS: Final = 200
_NONE: Final = "-"


def render(data: dict[str, Any]) -> str:
    """Return the page of a report.

    Args:
        data: what `collect` returned.
    """
    from graphmill import __version__

    sections = list(_sections(data))
    return Template(_asset("page.html")).substitute(
        title=escape(data["title"]),
        subtitle=escape(_subtitle(data)),
        version=escape(__version__),
        style=_asset("style.css"),
        navigation="\n".join(
            f'<li><a href="#{key}">{escape(title)}</a></li>' for key, title, _ in sections
        ),
        sections="\n".join(_section(*section) for section in sections),
        data=_json(data),
        library=_asset("dagre/dagre.min.js").partition("//# sourceMappingURL")[0]
        + "/*\n" + _asset("dagre/LICENSE") + "*/",
        script="(() => {\n" + "\n".join(_asset(f"js/{name}.js") for name in _SCRIPTS) + "})();",
    )  # fmt: skip


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _json(data: dict[str, Any]) -> str:
    """Return data as JSON for a script element, without the `</script>` or `<!--` of a name."""
    text = json.dumps(
        {"graph": data["graph"], "steps": data["steps"]},
        ensure_ascii=True,
        allow_nan=False,
        separators=(",", ":"),
    )
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _subtitle(data: dict[str, Any]) -> str:
    steps = data["steps"]
    ran = f"{len(steps)} traced steps" if len(steps) > 1 else "one traced step" if steps else ""
    return f"{data['graph']['num_nodes']:,} nodes; {ran or 'prepared, not run'}"


def _sections(data: dict[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Yield anchor, title and content of each section."""
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in data["notes"])
    yield "summary", "Summary", notes + _facts(data["summary"])
    yield "advice", "What to try", _advice(data["advice"])
    yield "drawing", "Graph", _asset("graph.html")
    if data["steps"]:
        yield "time", "Timeline and memory", _asset("timeline.html")
        yield "by-time", "Nodes by time", _by_time(data["by_time"])
        yield "by-bytes", "Nodes by size of outputs", _by_bytes(data["by_bytes"])
    yield "not-compiled", "Not compiled", _not_compiled(data["not_compiled"])
    if data["clusters"]:
        yield "clusters", "Clusters", _clusters(data["clusters"])
    if data["regions"]:
        yield "loops", "Loops and conditionals", _regions(data["regions"])
    yield "devices", "Devices", _devices(data["devices"])


def _section(key: str, title: str, content: str) -> str:
    return (
        f'<section id="{key}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(title)}</h2>\n{content}\n</section>'
    )


def _facts(lines: Iterable[Sequence[str]]) -> str:
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in lines
    )
    return f'<dl class="facts">{facts}</dl>'


def _advice(advice: Sequence[dict[str, Any]]) -> str:
    if not advice:
        return "<p>Nothing stands out.</p>"
    items = "".join(
        f"<li><strong>{escape(one['title'])}</strong><p>{escape(one['text'])}</p>"
        + (f"<p>{', '.join(map(_node, one['nodes']))}</p>" if one["nodes"] else "")
        + "</li>"
        for one in advice
    )
    return f'<ol class="advice">{items}</ol>'


def _node(name: str) -> str:
    """Return a button that shows a node in the drawing."""
    shown = escape(name, quote=True)
    return f'<button type="button" class="link" data-node="{shown}">{shown}</button>'


def _table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Return an HTML table; a cell is its class and its HTML; a column named `#…` is numeric."""
    shown = rows[:_MAX_ROWS]
    more = f" (the first {len(shown)} of {len(rows)})" if len(rows) > len(shown) else ""
    head = "".join(map(_heading, columns))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>" for kind, text in row
        )
        + "</tr>"
        for row in shown
    )
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f"<table><caption>{escape(caption + more)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _heading(name: str) -> str:
    kind = ' class="number"' if name.startswith("#") else ""
    return f'<th scope="col"{kind}>{escape(name.removeprefix("#"))}</th>'


def _by_time(totals: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            ("name", _node(one["node"])),
            ("", escape(one["op"])),
            ("", escape(one["device"])),
            ("number", f"{one['runs']:,}"),
            ("number", escape(time_text(one["nanoseconds"]))),
            ("", _bar(one["share"])),
        )
        for one in totals
    ]
    columns = ("Node", "Op", "Device", "#Runs", "#Time", "Share of the time")
    return _table("The nodes with the most time in the last step", columns, rows)


def _bar(share: float) -> str:
    return (
        f'<span class="bar" style="width:{max(share, 0) * 8:.2f}rem" aria-hidden="true"></span>'
        f"{share:.1%}"
    )


def _by_bytes(totals: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            ("name", _node(one["node"])),
            ("", escape(one["op"])),
            ("", escape(one["device"])),
            ("number", escape(bytes_text(one["bytes"]))),
            ("", escape(", ".join(one["outputs"]))),
        )
        for one in totals
    ]
    columns = ("Node", "Op", "Device", "#Size", "Outputs")
    return _table("The nodes with the largest outputs in the last step", columns, rows)


def _not_compiled(reasons: Sequence[dict[str, Any]]) -> str:
    if not reasons:
        return "<p>Every node that runs is part of a cluster.</p>"
    rows = [
        (
            ("name", escape(one["reason"])),
            ("number", f"{one['count']:,}"),
            ("number", escape(time_text(one["nanoseconds"])) if one["nanoseconds"] else _NONE),
            ("", escape(_most(one["ops"]))),
            ("name", _node(one["example"])),
        )
        for one in reasons
    ]
    columns = ("Reason", "#Nodes", "#Time", "Ops", "For example")
    return _table("Why nodes are interpreted", columns, rows)


def _most(counts: dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda pair: -pair[1])
    more = f", {len(ranked) - 5} others" if len(ranked) > 5 else ""
    return ", ".join(f"{name} ({count:,})" for name, count in ranked[:5]) + more


def _clusters(clusters: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            ("name", escape(cluster["name"])),
            ("", escape(cluster["device"])),
            ("number", f"{cluster['num_nodes']:,}"),
            *_signature_cells(signature, cluster["tier"]),
        )
        for cluster in clusters
        for signature in cluster["signatures"] or [None]
    ]
    columns = (
        *("Cluster", "Device", "#Nodes", "Tier", "Signature", "#Compiled in"),
        *("#Straight-line calls", "#Compiled calls", "Notes"),
    )
    return _table("Groups of nodes that run as one", columns, rows)


def _signature_cells(signature: dict[str, Any] | None, tier: str) -> list[tuple[str, str]]:
    if signature is None:
        return [("", escape(tier)), ("", "not called"), *[("number", _NONE)] * 3, ("", "")]
    causes = [one["cause"] for one in signature["compiles"] if one["cause"]]
    notes = "; ".join(filter(None, [*causes, signature["reason"]]))
    return [
        ("", escape(signature["tier"])),
        ("name", escape(signature["signature"])),
        ("number", f"{signature['seconds']:.2f} s" if signature["seconds"] else _NONE),
        ("number", f"{signature['num_straight']:,}"),
        ("number", f"{signature['num_compiled']:,}"),
        ("name", escape(notes)),
    ]


def _regions(regions: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            ("", "loop" if one["kind"] == "while" else "conditional"),
            ("name", escape(one["name"])),
            ("number", f"{one['num_nodes']:,}"),
            ("name", "as a function" if one["is_functional"] else escape(one["reason"])),
        )
        for one in regions
    ]
    columns = ("Kind", "Name", "#Nodes", "How it runs")
    return _table("Loops and conditionals of control flow v1", columns, rows)


def _devices(devices: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            ("name", escape(one["name"])),
            ("", escape(one["type"])),
            ("number", escape(bytes_text(one["memory_limit"])) if one["memory_limit"] else _NONE),
            ("number", f"{one['num_nodes']:,}"),
        )
        for one in devices
    ]
    return _table("Devices of the session", ("Device", "Type", "#Memory", "#Nodes"), rows)
