"""The keys and values of LMDB databases, read with `lmdb`, which is imported on first use.

Semantics: tensorflow/core/kernels/data/experimental/lmdb_dataset_op.cc.
"""

from __future__ import annotations

import importlib
import os
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator, on_drop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


class LmdbRecords(Dataset):
    """The keys and values of databases, one after the other; both are strings.

    Args:
        paths: of the databases, each a folder or a file.
    """

    waits = True

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__((dtypes.string, dtypes.string), ((), ()))
        self.paths = list(paths)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return _Reading(self)


class _Reading(ElementIterator):
    def __init__(self, dataset: LmdbRecords) -> None:
        self._left = iter(dataset.paths)
        self._database: Database | None = None

    def __next__(self) -> Element:
        while True:
            if self._database is None:
                self._database = Database(next(self._left))
            pair = self._database.next()
            if pair is not None:
                return tuple(map(string_scalar, pair))
            self._database = None


class Database:
    """A database opened for reading in the order of its keys.

    Raises:
        InvalidArgumentError: it cannot be opened.
        UnimplementedError: the package `lmdb` is not installed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with self._refusing():
            self._environment = _environment(path)
            self._items: Any = _items(self._environment)

    def next(self) -> tuple[bytes, bytes] | None:
        """Return the next key and its value, None at the end.

        Raises:
            InvalidArgumentError: the database is corrupted.
        """
        with self._refusing():
            pair: tuple[bytes, bytes] | None = next(self._items, None)
        return pair

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Convert errors of LMDB to ours."""
        error_type = _lmdb().Error
        try:
            yield
        except error_type as error:
            raise InvalidArgumentError(
                f"the LMDB database {self._path!r} cannot be read: {error}"
            ) from error


class _Environment:
    """An open database, which is closed when nothing reads it any longer."""

    def __init__(self, path: str) -> None:
        self.opened = _lmdb().open(
            path, readonly=True, lock=False, create=False, subdir=not Path(path).is_file()
        )
        on_drop(self, self.opened.close)


_OPEN: Final[weakref.WeakValueDictionary[str, _Environment]] = weakref.WeakValueDictionary()
_LOCK: Final = fork_safe_lock()


def _environment(path: str) -> _Environment:
    """Return a database; LMDB refuses to open one twice in a process."""
    key = os.path.realpath(path)
    with _LOCK:
        environment = _OPEN.get(key)
        if environment is None:
            environment = _OPEN[key] = _Environment(path)
        return environment


def _items(environment: _Environment) -> Iterator[tuple[bytes, bytes]]:
    with environment.opened.begin() as transaction, transaction.cursor() as cursor:
        yield from cursor


def _lmdb() -> Any:
    try:
        return importlib.import_module("lmdb")
    except ImportError:
        raise UnimplementedError(
            "LMDB databases are read with lmdb, which is not installed; "
            "run: pip install graphmill[lmdb]"
        ) from None
