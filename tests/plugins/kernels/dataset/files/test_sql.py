"""Datasets of SQLite queries on files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

if TYPE_CHECKING:
    from pathlib import Path

SPEC: dict[str, Any] = {"output_types": ["int64", "string"], "output_shapes": [[], []]}


def text(value: str) -> Any:
    return ops.array.const(
        value=np.array(value.encode(), object), dtype=graphmill.as_dtype("string")
    )


def rows(path: Path, query: str) -> list[tuple[int, bytes]]:
    """Return all rows of a query."""
    graph = graphmill.Graph()
    with graph.as_default():
        dataset = ops.dataset.sql_dataset(text("sqlite"), text(str(path)), text(query), **SPEC)
        handle = ops.dataset.iterator_v2(shared_name="", container="", **SPEC)
        start = ops.dataset.make_iterator(dataset, handle)
        element = ops.dataset.iterator_get_next(handle, **SPEC)
    found = []
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        while True:
            try:
                number, name = session.run(element)
            except errors.OutOfRangeError:
                return found
            found.append((int(number), name))


def make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE people (age INTEGER, name TEXT)")
        connection.executemany("INSERT INTO people VALUES (?, ?)", [(41, "Ada"), (7, "Zoë")])


def test_query_returns_the_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "people ?#%.db"
    make_database(path)
    found = rows(path, "SELECT age, name FROM people ORDER BY age")
    assert found == [(7, "Zoë".encode()), (41, b"Ada")]


def test_missing_database_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "missing.db"
    with pytest.raises(errors.NotFoundError, match=r"missing\.db"):
        rows(path, "SELECT 1, 'a'")
    assert not path.exists()


def test_query_that_writes_fails_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    make_database(path)
    before = path.read_bytes()
    with pytest.raises(errors.UnknownError, match="readonly"):
        rows(path, "DELETE FROM people")
    assert path.read_bytes() == before


def test_file_that_is_not_a_database_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no database " * 100)
    with pytest.raises(errors.UnknownError, match="not a database"):
        rows(path, "SELECT age, name FROM people")
