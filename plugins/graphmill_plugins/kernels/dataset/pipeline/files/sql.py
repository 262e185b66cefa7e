"""Sql dataset: the rows of an SQLite query.

Semantics: tensorflow/core/kernels/data/experimental/sql_dataset_op.cc and
sql/sqlite_query_connection.cc.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np

from graphmill import dtypes
from graphmill.errors import CancelledError, InvalidArgumentError, NotFoundError, UnknownError
from graphmill.spi.kernels import check_cancelled, memory_limit
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, ElementIterator, on_drop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_INSTRUCTIONS: Final = 100_000
"""Instructions of SQLite between two checks for a cancelled step: some milliseconds."""
_IN_MEMORY: Final = ":memory:"
_QUERIES: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
"""The codes of SQLite's authorizer for the actions that a query may take."""
_TYPES: Final = frozenset(
    map(
        dtypes.as_dtype,
        ["string", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool", "float64"],
    )
)


class QueryRows(Dataset):
    """The rows of a query, one component for each column.

    Args:
        path: that of the database, which is opened for reading only; ":memory:" for an empty one.
        query: in SQL.
        broker: opens the database.

    Raises:
        InvalidArgumentError: SQLite has no such type, or a component is not a scalar.
    """

    waits = True

    def __init__(
        self,
        path: str,
        query: str,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        broker: Broker,
    ) -> None:
        super().__init__(*structure)
        for dtype in self.dtypes:
            if dtype not in _TYPES:
                raise InvalidArgumentError(
                    f"a column cannot be of type {dtype.name}; use one of "
                    f"{', '.join(sorted(known.name for known in _TYPES))}"
                )
        if any(shape != () for shape in self.shapes):
            raise InvalidArgumentError("Each element of `output_shapes` must be a scalar.")
        self.path, self.query, self.broker = path, query, broker

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return _Rows(self)


class _Rows(ElementIterator):
    def __init__(self, dataset: QueryRows) -> None:
        self._dataset = dataset
        self._connection: sqlite3.Connection | None = None
        self._cursor: sqlite3.Cursor | None = None
        self._is_at_end = False

    def __next__(self) -> Element:
        if self._is_at_end:
            raise StopIteration
        try:
            row = self._query().fetchone()
            if row is not None:
                return tuple(map(self._value, row, self._dataset.dtypes))
        except (sqlite3.Error, sqlite3.Warning) as error:
            check_cancelled()
            raise UnknownError(
                f"the query of SqlDataset failed on {self._dataset.path!r}: {error}"
            ) from error
        self._is_at_end = True
        raise StopIteration

    def _query(self) -> sqlite3.Cursor:
        """Return the cursor of the running query, starting it now if necessary.

        Raises:
            InvalidArgumentError: it has more or fewer columns than the dataset components.
        """
        if self._cursor is not None:
            return self._cursor
        cursor = self._connect().execute(_first_statement(self._dataset.query))
        expected = len(self._dataset.dtypes)
        count = len(cursor.description or ())
        if count != expected:
            raise InvalidArgumentError(
                f"The number of columns in query ({count}) must match the number of elements in "
                f"output_types ({expected})."
            )
        self._cursor = cursor
        return cursor

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            path = self._dataset.path
            broker = self._dataset.broker
            if path != _IN_MEMORY and not broker.exists(path):
                raise NotFoundError(f"the database {path!r} of SqlDataset does not exist")
            self._connection = (_copied if broker.is_restricted else _opened)(path, broker)
            self._connection.text_factory = bytes
            _bound(self._connection)
            on_drop(self, self._connection.close)
        return self._connection

    def _value(self, value: Any, dtype: DType) -> Value:
        if dtype is dtypes.string:
            return string_scalar(b"" if value is None else self._cast(value, "TEXT", bytes))
        if dtype is dtypes.float64:
            return np.float64(0.0 if value is None else self._cast(value, "REAL", float))
        number = 0 if value is None else self._cast(value, "INTEGER", int)
        if dtype is dtypes.bool:
            return np.bool_(number != 0)
        return np.int64(number).astype(dtype.as_numpy_dtype)  # wraps around, as TensorFlow does

    def _cast(self, value: Any, name: str, kind: type[Any]) -> Any:
        """Return a value converted by SQLite's own rules, unless it has the type already."""
        if type(value) is kind:
            return value
        return self._connect().execute(f"SELECT CAST(? AS {name})", (value,)).fetchone()[0]


def _opened(path: str, broker: Broker) -> sqlite3.Connection:
    """Open a database for reading only."""
    del broker
    uri = path if path == _IN_MEMORY else f"file:{quote(path)}?mode=ro"
    # Elements are taken in several threads, one at a time.
    return sqlite3.connect(uri, uri=True, check_same_thread=False)


def _copied(path: str, broker: Broker) -> sqlite3.Connection:
    """Read a database into memory, so that SQLite itself opens no file; only queries may run.

    Statements such as ATTACH and VACUUM INTO would reach other files.
    """
    copied = sqlite3.connect(_IN_MEMORY, check_same_thread=False)
    if path != _IN_MEMORY:
        copied.deserialize(broker.read_bytes(path))
    copied.set_authorizer(_authorized)
    return copied


def _bound(connection: sqlite3.Connection) -> None:
    """End queries with the step that waits for them, and bound the size of a string or blob."""
    size = min(memory_limit(), connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH))
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size)
    connection.set_progress_handler(_is_cancelled, _INSTRUCTIONS)


def _is_cancelled() -> bool:
    try:
        check_cancelled()
    except CancelledError:
        return True
    return False


def _authorized(action: int, *details: object) -> int:
    del details
    return sqlite3.SQLITE_OK if action in _QUERIES else sqlite3.SQLITE_DENY


def _first_statement(query: str) -> str:
    """Return the first SQL statement of a text; SQLite ignores the others."""
    end = query.find(";")
    while end >= 0:
        statement = query[: end + 1]
        if sqlite3.complete_statement(statement):
            return statement
        end = query.find(";", end + 1)
    return query
