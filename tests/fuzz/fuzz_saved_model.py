"""Fuzz target: load a SavedModel directory whose file `saved_model.pb` is damaged."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import graphmill
from graphmill import errors

_EXAMPLES = Path(__file__).parents[2] / "examples" / "digits"


def seeds() -> list[bytes]:
    """Return the files of a model of TensorFlow 1 and one of TensorFlow 2."""
    return [
        (_EXAMPLES / name / "saved_model.pb").read_bytes()
        for name in ("saved_model_tf1", "saved_model_tf2")
    ]


def fuzz(data: bytes) -> None:
    """Load a directory with this file and without variables."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "saved_model.pb").write_bytes(data)
        with contextlib.suppress(errors.OpError):
            graphmill.saved_model.load(folder)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
