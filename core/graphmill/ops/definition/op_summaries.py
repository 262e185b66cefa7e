"""Summaries of TensorFlow's ops, one sentence of our own for each.

`op_summaries.tsv` has a line for each op that a built-in kernel runs: the name, a tab, the
sentence. Edit it by hand; a test checks that it is complete. The ops of a plugin declare their
sentence in their definition: the first line of the docstring, or `OpDef.summary`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import OpDef


def summary_of(op_def: OpDef) -> str:
    """Return what an op does: its own summary, or the one of TensorFlow's op of that name."""
    return op_def.summary or bundled_summaries().get(op_def.name, "")


@cache
def bundled_summaries() -> dict[str, str]:
    """Return the summaries of TensorFlow's ops, by name."""
    text = Path(__file__).with_name("op_summaries.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t", 1) for line in text.splitlines())
