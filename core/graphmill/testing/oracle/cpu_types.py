"""List the element types that TensorFlow's CPU kernels of each op support."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any


@cache
def cpu_types() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the names of element types, by op and type attr; ops without type attrs are absent."""
    facts = _facts()
    sets = [tuple(text.split()) for text in facts["sets"]]
    return {
        op: {attr: sets[index] for attr, index in attrs.items()}
        for op, attrs in facts["ops"].items()
    }


@cache
def cpu_ops() -> frozenset[str]:
    """Return the ops that have a CPU kernel in TensorFlow."""
    facts = _facts()
    return frozenset([*facts["ops"], *facts["without_types"].split()])


@cache
def _facts() -> dict[str, Any]:
    text = Path(__file__).with_name("cpu_types.json").read_text("utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts
