"""Fuzz target: load a SavedModel directory in which one file is damaged, and call its signatures.

The first byte chooses the file.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scratch_folder import scratch_folder
from session_config import session_config
from typed_errors import typed_errors

import graphmill
from graphmill import ops, proto, saved_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONFIG = session_config(500, 1 << 24, policy="pure")
_FILES = (
    "saved_model.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    "assets/words.txt",
)


@cache
def _model() -> Path:
    """Write a model with a variable, an asset, a table and an initializer; return its folder."""
    folder = scratch_folder()
    (folder / "words.txt").write_text("one\ntwo\n")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 2], name="x")
        weights = graphmill.Variable(np.eye(2, dtype=np.float32), name="w")
        y = ops.math.mat_mul(x, weights, name="y")
        words = graph.constant(str(folder / "words.txt"), name="words")
        table = ops.lookup.hash_table_v2(key_dtype="string", value_dtype="int64", name="table")
        fill = ops.lookup.initialize_table_from_text_file_v2(
            table, words, key_index=-2, value_index=-1, name="fill"
        )
        found = ops.lookup.lookup_table_find_v2(
            table, graph.constant([b"two"]), graph.constant(-1, "int64"), name="found"
        )
        signature = saved_model.build_signature_def({"x": x}, {"y": y, "found": found})
        with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
            session.run(graphmill.global_variables_initializer())
            saved_model.save(
                session,
                folder / "model",
                {"serving_default": signature},
                assets={words: folder / "words.txt"},
                main_op=fill,
            )
    return folder / "model"


def seeds() -> list[bytes]:
    """Return each file of a small model, after the number of the file."""
    return [bytes([i]) + (_model() / name).read_bytes() for i, name in enumerate(_FILES)]


def read_message(data: bytes) -> proto.SavedModel | None:
    """Return the graph in a seed; None for the seeds of other files."""
    return None if data[0] else proto.SavedModel.FromString(data[1:])


def write_message(message: proto.SavedModel, data: bytes) -> bytes:
    """Return a graph as input."""
    return data[:1] + message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Load a model with one file replaced, and call its signatures."""
    with (
        _replaced(_FILES[(data[0] if data else 0) % len(_FILES)], data[1:]) as folder,
        typed_errors(),
        saved_model.load(folder, config=_CONFIG, trust=False) as model,
    ):
        for signature in model.signatures.values():
            with typed_errors():
                signature(x=np.ones((3, 2), np.float32))
        for name in [node.name for node in model.session.graph.nodes][-2:]:
            with typed_errors():
                model.session.run(name)


@contextlib.contextmanager
def _replaced(name: str, content: bytes) -> Iterator[Path]:
    """Replace a file of the model; yield the model's folder.

    Copying the folder for each input would take longer than loading it. The files are new ones
    each time, because the old ones may still be mapped into memory.
    """
    path = _model() / name
    intact = path.with_name(path.name + ".intact")
    path.rename(intact)
    try:
        path.write_bytes(content)
        yield _model()
    finally:
        intact.replace(path)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
