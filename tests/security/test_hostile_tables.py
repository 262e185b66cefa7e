"""Tables and arrays that a batch run reads and writes: no cell becomes two, damage is typed."""

from __future__ import annotations

import csv
import io
import struct
import zipfile
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.plugins.serving.served_models import write_echo, write_line

from graphmill import batch, errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FORMULAS: Final = (
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    '=HYPERLINK("http://127.0.0.1/?x="&A1,"a")',
    '","forged","',
    'a"b',
    "\t=1",
    "a\rb",
    " ",
)


@pytest.mark.parametrize("number", range(len(FORMULAS)))
def test_text_in_a_csv_is_one_cell_and_unchanged(number: int, tmp_path: Path) -> None:
    text = FORMULAS[number]
    model = write_echo(tmp_path / "model", "string", [None])
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x"], [text]])
    batch.run(model, tmp_path / "in.csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        names, row, *more = list(csv.reader(file))
    assert not more
    assert len(row) == len(names)
    assert row[names.index("y")] == text


TABLES: Final[dict[str, Callable[[], bytes]]] = {
    "a long cell": lambda: b"x\n" + b"1" * (1 << 20) + b"\n",
    "many cells": lambda: b"x\n" + b"1," * (1 << 17) + b"\n",
    "many columns": lambda: b"x,x" * (1 << 16) + b"\n1\n",
    "a quote without an end": lambda: b'x\n"' + b"1\n" * (1 << 18),
    "zero bytes": lambda: b"x\n1\0\n\0\n",
    "another encoding": lambda: b"x\n\xff\xfe\n",
    "no header": lambda: b"\n\n\n",
    "a large number": lambda: b"x\n1e999999999\n" + b"9" * 5000 + b"q\n",
    "Python": lambda: b"x\n__import__('os').system('touch evil')\n",
    "a list": lambda: b'x\n"' + b"[" * 100_000 + b'"\n',
}


@pytest.mark.parametrize("name", TABLES)
def test_malformed_table_is_a_typed_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_line(tmp_path / "model")
    (tmp_path / "in.csv").write_bytes(TABLES[name]())
    with pytest.raises(errors.OpError) as caught:
        batch.run(model, tmp_path / "in.csv", tmp_path / "out.csv")
    assert not isinstance(caught.value, errors.InternalError)
    assert len(caught.value.message) < 4_000
    assert not (tmp_path / "evil").exists()


def array_file(header: str) -> bytes:
    """Return a NumPy file with this header and eight bytes of data."""
    text = header.encode("latin-1")
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + bytes(8)


def _header(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n"


HEADERS: Final = {
    "a large shape": _header("'<f4'", f"({2**40},)"),
    "sizes that multiply to nothing": _header("'<f4'", f"({2**32}, {2**32})"),
    "a negative size": _header("'<f4'", "(-2,)"),
    "objects": _header("'|O'", "(1,)"),
    "fields of objects": _header("[('a', '|O')]", "(1,)"),
    "many dimensions": _header("'<f4'", "(" + "1," * 300 + ")"),
    "Python": "__import__('os').mkdir('evil')\n",
    "deep": "(" * 9_000 + "\n",
    "a large header": " " * 200_000 + "\n",
    "an unknown type": _header("'<q99'", "(1,)"),
    "a time": _header("'<M8[ns]'", "(1,)"),
    "text": _header("'<U1000000000'", "(1,)"),
}


@pytest.mark.parametrize("suffix", ["npy", "npz"])
@pytest.mark.parametrize("name", HEADERS)
def test_malformed_array_is_a_typed_error(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = write_line(tmp_path / "model")
    content: Any = array_file(HEADERS[name])
    path = tmp_path / f"in.{suffix}"
    if suffix == "npz":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("x.npy", content)
            archive.writestr("../../evil.npy", content)
        content = buffer.getvalue()
    path.write_bytes(content)
    with pytest.raises(errors.OpError) as caught:
        batch.run(model, path, tmp_path / "out.csv")
    assert not isinstance(caught.value, errors.InternalError)
    assert len(caught.value.message) < 4_000
    assert not (tmp_path / "evil").exists()
