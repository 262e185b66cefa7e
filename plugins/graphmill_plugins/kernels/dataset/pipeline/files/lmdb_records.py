"""The keys and values of LMDB databases, read with `lmdb`, which is imported on first use.

Semantics: tensorflow/core/kernels/data/experimental/lmdb_dataset_op.cc.
"""

from __future__ import annotations

import importlib
import weakref
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from graphmill.spi import install_command
from graphmill.spi.files import UNRESTRICTED, LocalReader, join
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator, on_drop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_DATA: Final = "data.mdb"
"""The file of a database that is a folder."""


class LmdbRecords(Dataset):
    """The keys and values of databases, one after the other; both are strings.

    Args:
        paths: those of the databases, each a folder or a file.
        broker: opens the databases.
    """

    waits = True

    def __init__(self, paths: Sequence[str], broker: Broker) -> None:
        super().__init__((dtypes.string, dtypes.string), ((), ()))
        self.paths, self.broker = list(paths), broker

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return _Reading(self)


class _Reading(ElementIterator):
    def __init__(self, dataset: LmdbRecords) -> None:
        self._left = iter(dataset.paths)
        self._broker = dataset.broker
        self._database: Database | None = None

    def __next__(self) -> Element:
        while True:
            if self._database is None:
                self._database = Database(next(self._left), self._broker)
            pair = self._database.next()
            if pair is not None:
                return tuple(map(string_scalar, pair))
            self._database = None


class Database:
    """A database opened for reading in the order of its keys.

    Args:
        path: its path, a folder or a file.
        broker: opens it.

    Raises:
        InvalidArgumentError: it cannot be opened.
        PermissionDeniedError: the rules of the session do not allow it.
        UnimplementedError: the package `lmdb` is not installed, or there are rules and LMDB cannot
            read the file that the broker has opened.
    """

    def __init__(self, path: str, broker: Broker = UNRESTRICTED) -> None:
        self._path = path
        file = None
        if broker.is_restricted:  # before LMDB is imported: a refusal needs no package
            name = join(path, _DATA) if broker.is_dir(path) else path
            try:
                file, path = _opened(name, broker)
            except NotFoundError:
                _lmdb()  # without the package, an error about a missing file would mislead
                raise
        with self._refusing():
            self._environment = _environment(path, file)
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
        """Convert errors of LMDB to status errors."""
        error_type = _lmdb().Error
        try:
            yield
        except error_type as error:
            raise InvalidArgumentError(
                f"the LMDB database {self._path!r} cannot be read: {error}"
            ) from error


class _Environment:
    """An open database, which is closed when nothing reads it any longer.

    Args:
        path: a path under which LMDB can open it.
        file: keeps that path valid; None if it needs nothing.
    """

    def __init__(self, path: str, file: LocalReader | None) -> None:
        self.opened = _lmdb().open(
            path, readonly=True, lock=False, create=False, subdir=not _is_file(path)
        )
        on_drop(self, partial(_close, self.opened, file))


_OPEN: Final[weakref.WeakValueDictionary[Any, _Environment]] = weakref.WeakValueDictionary()
_LOCK: Final = fork_safe_lock()


def _environment(path: str, file: LocalReader | None) -> _Environment:
    """Return a database; LMDB must not open a file twice in a process."""
    key = _identity(path)
    with _LOCK:
        environment = _OPEN.get(key)
        if environment is None:
            environment = _OPEN[key] = _Environment(path, file)
        elif file is not None:
            file.close()
        return environment


def _opened(path: str, broker: Broker) -> tuple[LocalReader, str]:
    """Open a file through a broker; return it, and the path of the open file for LMDB.

    LMDB takes a path only, which another process could replace after it was checked.
    """
    file = broker.open_reader(path)
    if isinstance(file, LocalReader):
        by_number = f"/dev/fd/{file.fileno()}"
        if Path(by_number).exists():
            return file, by_number
    file.close()
    raise UnimplementedError(
        f"the LMDB database {path!r} cannot be read under rules: LMDB opens local files only, and "
        "this system has no /dev/fd; allow 'fs.read' without a path, or trust the model"
    )


def _identity(path: str) -> Any:
    """Return a key that is the same for one file, however it is opened."""
    try:
        status = Path(path if _is_file(path) else join(path, _DATA)).stat()
    except OSError:
        return path  # opening it raises the error
    return status.st_dev, status.st_ino


def _is_file(path: str) -> bool:
    return Path(path).is_file()


def _close(opened: Any, file: LocalReader | None) -> None:
    opened.close()
    if file is not None:
        file.close()


def _items(environment: _Environment) -> Iterator[tuple[bytes, bytes]]:
    with environment.opened.begin() as transaction, transaction.cursor() as cursor:
        yield from cursor


def _lmdb() -> Any:
    try:
        return importlib.import_module("lmdb")
    except ImportError:
        raise UnimplementedError(
            "LMDB databases are read with lmdb, which is not installed; "
            f"run: {install_command('lmdb')}"
        ) from None
