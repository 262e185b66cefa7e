"""Tables from text files, and behaviour that op cases do not cover."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmill import dtypes, errors
from graphmill.runtime.resources.variables import ResourceHandle
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels._strings import string_array, string_scalar
from graphmill_plugins.kernels.lookup._lookup_table import (
    Buckets,
    DenseTable,
    InitializableTable,
    LookupTable,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphmill.runtime.kernels.op_kernel import OpKernel

    Bind = Callable[..., OpKernel]


def handle(table: LookupTable) -> ResourceHandle:
    return ResourceHandle("/device:CPU:0", "localhost", table.name, "LookupTable", table)


def fill(
    bind_kernel: Bind, ctx: Any, path: Path, text: str, *kinds: dtypes.DType, **attrs: Any
) -> dict[Any, Any]:
    path.write_text(text, encoding="utf-8")
    table = InitializableTable(*(kinds or (dtypes.string, dtypes.int64)), "words")
    name = string_scalar(str(path).encode())
    attrs = {"key_index": -2, "value_index": -1, **attrs}
    compute = bind_kernel("InitializeTableFromTextFileV2", handle(table), name, **attrs).compute
    compute(ctx, handle(table), name)
    keys, values = table.export()
    return dict(zip(keys.tolist(), values.tolist(), strict=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.txt"


def test_lines_number_themselves(bind_kernel: Bind, ctx: Any, path: Path) -> None:
    assert fill(bind_kernel, ctx, path, "the\ncat\n") == {b"the": 0, b"cat": 1}


def test_keys_and_values_are_read_from_columns(bind_kernel: Bind, ctx: Any, path: Path) -> None:
    text = "7\tseven\n8\teight"
    kinds = (dtypes.int64, dtypes.string)
    got = fill(bind_kernel, ctx, path, text, *kinds, key_index=0, value_index=1)
    assert got == {7: b"seven", 8: b"eight"}


def test_only_a_part_of_the_file_is_read(bind_kernel: Bind, ctx: Any, path: Path) -> None:
    got = fill(bind_kernel, ctx, path, "# head\na\nb\nc\n", vocab_size=2, offset=1)
    assert got == {b"a": 0, b"b": 1}


@pytest.mark.parametrize(
    ("text", "attrs", "message"),
    [
        ("a\n\nb\n", {}, "empty line"),
        ("a\n", {"vocab_size": 3}, "expected 3 but got 1"),
        ("a\n", {"key_index": 1}, "expected at least 2 got 1"),
        ("a\tx\n", {"value_index": 1}, "Field x in line 0 is not a valid int64"),
        ("a\n", {"delimiter": "ab"}, "only 1 char"),
    ],
)
def test_bad_files_are_refused(
    bind_kernel: Bind, ctx: Any, path: Path, text: str, attrs: dict[str, Any], message: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        fill(bind_kernel, ctx, path, text, **attrs)


def test_a_missing_file_is_not_found(bind_kernel: Bind, ctx: Any, tmp_path: Path) -> None:
    table = InitializableTable(dtypes.string, dtypes.int64, "words")
    name = string_scalar(str(tmp_path / "nope").encode())
    compute = bind_kernel(
        "InitializeTableFromTextFileV2", handle(table), name, key_index=-2, value_index=-1
    ).compute
    with pytest.raises(errors.NotFoundError, match="nope"):
        compute(ctx, handle(table), name)


def test_a_mutable_table_is_not_initialized(bind_kernel: Bind, ctx: Any) -> None:
    table = LookupTable(dtypes.string, dtypes.int64, "m")
    keys, values = string_array([b"a"]), np.array([1])
    compute = bind_kernel("InitializeTableV2", handle(table), keys, values).compute
    with pytest.raises(errors.InvalidArgumentError, match="mutable"):
        compute(ctx, handle(table), keys, values)


def test_one_name_with_two_types_is_refused(bind_kernel: Bind, ctx: Any) -> None:
    attrs = {"key_dtype": "string", "shared_name": "t"}
    bind_kernel("HashTableV2", value_dtype="int64", **attrs).compute(ctx)
    with pytest.raises(errors.InvalidArgumentError, match="Conflicting key/value dtypes"):
        bind_kernel("HashTableV2", value_dtype="string", **attrs).compute(ctx)


def test_keys_that_are_vectors() -> None:
    reserved = [np.array([0, 0]), np.array([-1, -1])]
    table = DenseTable(reserved, dtypes.float32, (), "d", Buckets(4, 0.8))
    table.insert(np.array([[1, 2], [3, 4]]), np.array([5, 6], np.float32))
    got = table.find(np.array([[3, 4], [9, 9]]), np.array(-1, np.float32))
    assert got.tolist() == [6, -1]
    keys, _ = table.export()
    assert keys.tolist() == [[1, 2], [3, 4], [0, 0], [0, 0]]
    with pytest.raises(errors.InvalidArgumentError, match="empty_key"):
        table.find(reserved[0][None], np.array(-1, np.float32))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    content=st.one_of(st.binary(max_size=30), st.text("1-.e\t\n\r", max_size=30)),
    kind=st.sampled_from([dtypes.string, dtypes.int32, dtypes.int64, dtypes.float32]),
    index=st.integers(-2, 2),
)
def test_any_file_fills_a_table_or_is_refused(
    bind_kernel: Bind, ctx: Any, path: Path, content: Any, kind: dtypes.DType, index: int
) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    table = InitializableTable(kind, dtypes.int64, "words")
    name = string_scalar(str(path).encode())
    attrs = {"key_index": index, "value_index": -1}
    compute = bind_kernel("InitializeTableFromTextFileV2", handle(table), name, **attrs).compute
    try:
        compute(ctx, handle(table), name)
    except errors.OpError:
        assert not table.is_initialized


CANCELLED = SimpleNamespace(is_cancelled=True)
LONG_OPERATIONS: dict[str, Callable[[LookupTable, Any], object]] = {
    "find": lambda table, keys: table.find(keys, np.array(-1)),
    "find with a default for each key": lambda table, keys: table.find(keys, keys),
    "insert": lambda table, keys: table.insert(keys, keys),
    "replace": lambda table, keys: table.replace(keys, keys),
}


@pytest.mark.parametrize("name", LONG_OPERATIONS)
def test_operation_on_many_keys_ends_when_the_step_is_cancelled(name: str) -> None:
    table = LookupTable(dtypes.int64, dtypes.int64, "t")
    operation = LONG_OPERATIONS[name]
    with running(CANCELLED), pytest.raises(errors.CancelledError):
        operation(table, np.arange(200_000) * 1000)
    assert len(table) == 0


def test_initialization_and_export_end_when_the_step_is_cancelled() -> None:
    table = InitializableTable(dtypes.int64, dtypes.int64, "t")
    with running(CANCELLED), pytest.raises(errors.CancelledError):
        table.initialize(np.arange(5000), np.arange(5000))
    table.initialize(np.arange(5000), np.arange(5000))
    with running(CANCELLED), pytest.raises(errors.CancelledError):
        table.export()


def test_many_keys_are_looked_up_in_blocks() -> None:
    keys = np.arange(200_000) * 1000
    table = LookupTable(dtypes.int64, dtypes.int64, "t")
    table.insert(keys, keys + 1)
    defaults = -keys
    odd = keys + (np.arange(200_000) % 2)
    found = table.find(odd, defaults)
    np.testing.assert_array_equal(found, np.where(odd == keys, keys + 1, defaults))
    assert len(table) == 200_000
