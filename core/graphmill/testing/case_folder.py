"""Replace `{tmp}` in the strings of a case by a temporary folder."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.testing.case import Case, InputTree
    from graphmill.testing.case_inputs import Values

_MARK = b"{tmp}"


class CaseFolder:
    """Replace `{tmp}` in the strings of a case by the actual folder, and back."""

    def __init__(self, path: str = "") -> None:
        self._path = path.encode()

    def inside(self, values: Values) -> Values:
        """Replace `{tmp}` by the folder in inputs."""
        return self._replaced(values, _MARK, self._path)

    def outside(self, values: Values) -> Values:
        """Replace the folder by `{tmp}` in results."""
        return self._replaced(values, self._path, _MARK)

    def _replaced(self, values: Values, old: bytes, new: bytes) -> Values:
        if not self._path or values.dtype != object:
            return values
        out = np.empty(values.size, dtype=object)
        out[:] = [item.replace(old, new) for item in values.reshape(-1).tolist()]
        return out.reshape(values.shape)


@contextmanager
def case_folder(case: Case) -> Iterator[CaseFolder]:
    """Create a temporary folder while a case that needs one runs."""
    trees = [*case.inputs, *(case.program.feed.values() if case.program else ())]
    if not any(map(_uses_folder, trees)):
        yield CaseFolder()
        return
    with tempfile.TemporaryDirectory() as path:
        yield CaseFolder(path)


def _uses_folder(tree: InputTree) -> bool:
    return any("{tmp}" in one.how for one in (tree if isinstance(tree, tuple) else (tree,)))
