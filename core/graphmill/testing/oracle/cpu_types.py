"""List the element types that TensorFlow's CPU kernels of each op support."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path


@cache
def cpu_types() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the names of element types, by op and type attr; ops without type attrs are absent."""
    facts = json.loads(Path(__file__).with_name("cpu_types.json").read_text("utf-8"))
    sets = [tuple(text.split()) for text in facts["sets"]]
    return {
        op: {attr: sets[index] for attr, index in attrs.items()}
        for op, attrs in facts["ops"].items()
    }
