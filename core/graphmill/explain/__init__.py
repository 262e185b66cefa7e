"""Why a step runs as it does: where each node went, which kernel and tier it got, and why.

    from graphmill.explain import explain, explain_all

    with graphmill.Session(graph="model.pb") as session:
        for record in explain(session, fetches=["y:0"], feeds=["x:0"]):
            print(record)

`Session.explain` returns all that is known of one signature (`StepRecord`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.explain.compilation import (
    CallCounts,
    ClusterRecord,
    Compilation,
    CompileRecord,
    SignatureRecord,
)

if TYPE_CHECKING:
    from graphmill.explain.step import NodeRecord, StepRecord, explain, explain_all

__all__ = [
    "CallCounts",
    "ClusterRecord",
    "Compilation",
    "CompileRecord",
    "NodeRecord",
    "SignatureRecord",
    "StepRecord",
    "explain",
    "explain_all",
]


def __getattr__(name: str) -> object:
    # What looks into sessions imports them; plugins that only note something must not.
    if name in ("NodeRecord", "StepRecord", "explain", "explain_all"):
        from graphmill.explain import step

        return getattr(step, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
