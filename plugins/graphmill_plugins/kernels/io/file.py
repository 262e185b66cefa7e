"""Kernels that read, write and find files.

Semantics: tensorflow/core/kernels/whole_file_read_ops.cc, matching_files_op.cc. Errors of the
file system have TensorFlow's codes; files are written atomically.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill import errors
from graphmill.spi import files, kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._path_strings import scalar_path, texts
from graphmill_plugins.kernels._support import ask_for_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value
    from graphmill.spi.files import Broker


@kernel("ReadFile", host=True, expensive=True, effects=("fs.read",), brokered=True)
def read_file(filename: Value, *, broker: Broker) -> Value:
    """Return the contents of a file."""
    out = np.empty((), object)
    out[()] = broker.read_bytes(scalar_path(filename, "filename"))
    return out


@kernel("WriteFile", host=True, expensive=True, effects=("fs.write",), brokered=True)
def write_file(filename: Value, contents: Value, *, broker: Broker) -> None:
    """Write a file, creating its folder if necessary."""
    content = np.asarray(contents, object)
    if content.ndim:
        raise errors.InvalidArgumentError(
            f"Contents tensor must be scalar, but had shape: {list(content.shape)}"
        )
    broker.write(scalar_path(filename, "filename"), content.item())


_WILDCARD = re.compile(r"[*?\[\\]")
_OBJECT_BYTES: Final = 100  # bytes of a path as text and as bytes, without its characters


def _with_folder(pattern: str) -> str:
    """Return a pattern, with `./` in front if it has a wildcard in its first component."""
    text = files.as_path(pattern)
    wildcard = _WILDCARD.search(text)
    if wildcard is None or "/" in text[: wildcard.start()]:
        return text
    return f"./{text}"


def _matches(patterns: Sequence[str], broker: Broker) -> list[str]:
    """Return the paths that match the patterns, with duplicates."""
    paths: list[str] = []
    nbytes = 0
    for pattern in cancellable(patterns, 1):
        found = broker.matching(_with_folder(pattern))
        nbytes += sum(2 * len(path) + _OBJECT_BYTES for path in found)
        ask_for_memory(nbytes, f"the paths that match {len(patterns)} patterns")
        paths += found
    return paths


@kernel(
    "MatchingFiles",
    host=True,
    expensive=True,
    dynamic_shape=True,
    effects=("fs.read",),
    brokered=True,
)
def matching_files(pattern: Value, *, broker: Broker) -> Value:
    """Return the paths that match the patterns, sorted, with duplicates.

    Semantics: tensorflow/core/platform/file_system_helper.cc: paths found by a wildcard in the
    working directory begin with `./`.
    """
    if np.ndim(pattern) > 1:
        raise errors.InvalidArgumentError(
            f"Input patterns tensor must be scalar or vector, but had shape: "
            f"{list(np.shape(pattern))}"
        )
    paths = _matches(texts(pattern), broker)
    out = np.empty(len(paths), object)
    out[:] = sorted(path.encode("utf-8", "surrogateescape") for path in paths)
    return out
