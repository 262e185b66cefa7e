"""Write the table of TensorFlow's Python names and ours, and its page.

    python tools/make_tensorflow_names.py --symbols    list TensorFlow's public names; needs it
    python tools/make_tensorflow_names.py              write the table and the page from the list
    python tools/make_tensorflow_names.py --check      check whether they are up to date

`tools/tensorflow_symbols.tsv` lists TensorFlow's public names with what they are; only the first
command needs TensorFlow. `tools/tensorflow_names.toml` says by hand what no rule finds: names of
ours that differ, and reasons why there is none. From both come
`core/graphmill/tensorflow_names.tsv`, which suggestions read, and `docs/reference/names.md`.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import _checkout  # noqa: F401 - use this checkout

from graphmill.tensorflow_names import Row

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
SYMBOLS: Final = ROOT / "tools" / "tensorflow_symbols.tsv"
RULES: Final = ROOT / "tools" / "tensorflow_names.toml"
INTRODUCTION: Final = ROOT / "tools" / "tensorflow_names_intro.md"
TABLE: Final = ROOT / "core" / "graphmill" / "tensorflow_names.tsv"
PAGE: Final = ROOT / "docs" / "reference" / "names.md"

NAMESPACES: Final = (
    *("tf", "tf.bitwise", "tf.data", "tf.linalg", "tf.math", "tf.nn", "tf.random", "tf.strings"),
    *("tf.train", "tf.compat.v1", "tf.compat.v1.bitwise", "tf.compat.v1.data"),
    *("tf.compat.v1.initializers", "tf.compat.v1.linalg", "tf.compat.v1.losses"),
    *("tf.compat.v1.math", "tf.compat.v1.nn", "tf.compat.v1.random", "tf.compat.v1.strings"),
    *("tf.compat.v1.summary", "tf.compat.v1.train"),
)
HOMES: Final = ("functions", "train", "losses", "initializers", "summary", "data")
"""Our modules with TensorFlow's names."""


HEADER: Final = "# name\tkind\tdetail"
_NOTICE: Final = "<!-- Written by tools/make_tensorflow_names.py; do not edit. -->\n"


class Symbol(NamedTuple):
    """A public name of TensorFlow."""

    name: str
    kind: str
    """Its kind: `op` (then `detail` is the op's function), `function`, `class`, `dtype` …"""
    detail: str

    @property
    def leaf(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def module(self) -> str:
        """The name without the last part, and without `tf.` and `tf.compat.v1.`."""
        return re.sub(r"^tf(\.compat\.v1)?\.?", "", self.name.rpartition(".")[0])


def public_symbols() -> Iterator[Symbol]:
    """Yield TensorFlow's public names; needs TensorFlow."""
    import tensorflow as tf

    for namespace in NAMESPACES:
        module = tf
        for part in namespace.split(".")[1:]:
            module = getattr(module, part)
        for leaf in sorted(dir(module)):
            if not leaf.startswith("_"):
                yield _symbol(f"{namespace}.{leaf}", getattr(module, leaf))


def _symbol(name: str, value: Any) -> Symbol:
    from tensorflow.python.util import tf_decorator

    kind = type(value).__name__
    if kind == "DType":
        return Symbol(name, "dtype", value.name)
    if kind == "MessageMeta":
        return Symbol(name, "message", value.DESCRIPTOR.full_name)
    if kind in ("module", "TFModuleWrapper", "KerasLazyLoader"):
        return Symbol(name, "module", "")
    if isinstance(value, type):
        return Symbol(name, "class", "")
    if callable(value):
        function = tf_decorator.unwrap(value)[1]
        if ".gen_" in getattr(function, "__module__", ""):
            return Symbol(name, "op", function.__name__)
        return Symbol(name, "function", "")
    return Symbol(name, "constant", "")


def read_symbols() -> list[Symbol]:
    """Return the stored list of TensorFlow's public names."""
    lines = SYMBOLS.read_text("utf-8").splitlines()[1:]
    return [Symbol(*line.split("\t")) for line in lines]


def rows() -> list[Row]:
    """Return the table for the stored names.

    Raises:
        LookupError: for some names there is neither a rule nor a reason.
    """
    table = [_row(symbol) for symbol in read_symbols()]
    missing = [row.name for row in table if not row.ours and not row.reason]
    if missing:
        raise LookupError(f"{len(missing)} names without a rule: {' '.join(missing)}")
    return table


def _row(symbol: Symbol) -> Row:
    rules = _rules()
    tf_name = symbol.name.replace("tf.compat.v1.", "tf.")
    keys = (symbol.name, tf_name, f"{symbol.module}.{symbol.leaf}", symbol.leaf)
    for key in keys[:2] if symbol.kind == "module" else keys:
        if key in rules["names"]:
            return Row(symbol.name, rules["names"][key], "")
        if key in rules["reason_of"]:
            return Row(symbol.name, "", rules["reason_of"][key])
    ours = _counterpart(symbol)
    if ours:
        return Row(symbol.name, ours, "")
    return Row(symbol.name, "", _reason(symbol))


def _counterpart(symbol: Symbol) -> str:
    """Return our name for a symbol, looked up by its kind; "" if there is none."""
    if symbol.kind == "dtype":
        return f"graphmill.{symbol.detail}" if symbol.detail in _top() else ""
    if symbol.kind == "message":
        return _message(symbol.detail)
    if symbol.kind == "module":
        return ""
    for module in (symbol.module, "functions"):
        if module in HOMES and symbol.leaf in _names_of(module):
            return f"graphmill.{module}.{symbol.leaf}"
    if not symbol.module and symbol.leaf in _top():
        return f"graphmill.{symbol.leaf}"
    for name in (symbol.detail, symbol.leaf, f"{symbol.module}_{symbol.leaf}"):
        if name and _plain(name) in _ops():
            return _ops()[_plain(name)]
    return ""


def _reason(symbol: Symbol) -> str:
    for pattern, key in _rules()["reasons_by_pattern"].items():
        if re.fullmatch(pattern, symbol.name):
            return key
    return ""


@cache
def _rules() -> dict[str, Any]:
    rules = tomllib.loads(RULES.read_text("utf-8"))
    reason_of = {
        name: reason["text"] for reason in rules["reason"] for name in reason["names"].split()
    }
    patterns = {
        pattern: reason["text"]
        for reason in rules["reason"]
        for pattern in reason.get("patterns", ())
    }
    return {"names": rules["names"], "reason_of": reason_of, "reasons_by_pattern": patterns}


@cache
def _names_of(module: str) -> frozenset[str]:
    return frozenset(importlib.import_module(f"graphmill.{module}").__all__)


@cache
def _top() -> frozenset[str]:
    import graphmill
    from graphmill import dtypes

    types = {name for name in dir(dtypes) if type(getattr(dtypes, name)).__name__ == "DType"}
    return frozenset(graphmill.__all__) | types


@cache
def _ops() -> dict[str, str]:
    """Return our op functions by their names without underscores."""
    from graphmill.ops.definition.names import function_name
    from graphmill.ops.definition.op_registry import bundled_ops

    return {
        _plain(function_name(op)): f"graphmill.ops.{family}.{function_name(op)}"
        for family, ops in bundled_ops().families().items()
        for op in ops
        if not op.startswith("_")
    }


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


@cache
def _messages() -> dict[str, str]:
    from graphmill import proto

    messages = {}
    for file in sorted(Path(proto.__file__).parent.glob("*_pb2.py")):
        module = importlib.import_module(f"graphmill.proto.{file.stem}")
        for name in module.DESCRIPTOR.message_types_by_name:
            full = module.DESCRIPTOR.message_types_by_name[name].full_name
            messages[full.rpartition(".")[2]] = f"graphmill.proto.{file.stem}.{name}"
    return messages


def _message(full_name: str) -> str:
    """Return our class of a message; a nested one as an attribute of the outer one."""
    parts = full_name.split(".")
    for position, part in enumerate(parts):
        if part in _messages():
            return ".".join([_messages()[part], *parts[position + 1 :]])
    return ""


def table_text() -> str:
    """Return the text of the table."""
    lines = ["# name in TensorFlow\tname in graphmill\treason, if there is none"]
    lines += ["\t".join(row) for row in rows()]
    return "\n".join(lines) + "\n"


def page_text() -> str:
    """Return the page: the names with a counterpart, and those without by their reason."""
    table = rows()
    present = _merged([row for row in table if row.ours])
    lines = [
        _NOTICE,
        INTRODUCTION.read_text("utf-8").format(
            present=sum(1 for row in table if row.ours), total=len(table)
        ),
        "## Names with a counterpart\n",
        "| TensorFlow | graphmill |",
        "|---|---|",
        *(f"| {', '.join(f'`{name}`' for name in names)} | `{ours}` |" for names, ours in present),
        "\n## Names without one\n",
        "| why | TensorFlow |",
        "|---|---|",
    ]
    reasons = list(dict.fromkeys(row.reason for row in table if row.reason))
    for reason in reasons:
        merged = _merged([row for row in table if row.reason == reason])
        names = ", ".join(f"`{name}`" for group, _ in merged for name in group)
        lines.append(f"| {reason} | {names} |")
    return "\n".join(lines) + "\n"


def _merged(table: list[Row]) -> list[tuple[list[str], str]]:
    """Return rows with equal last parts and counterparts as one, in order of the last part.

    A name of `tf.compat.v1` is left out if the one without it has the same counterpart.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for row in table:
        groups.setdefault((row.name.rpartition(".")[2], row.ours), []).append(row.name)
    merged = []
    for (_, ours), names in sorted(groups.items(), key=lambda item: item[0][0].lower()):
        shown = [
            name
            for name in names
            if ".compat.v1." not in name or name.replace(".compat.v1.", ".") not in names
        ]
        merged.append((shown, ours))
    return merged


def symbols_text() -> str:
    """Return the text of the list of TensorFlow's names; needs TensorFlow."""
    return "\n".join([HEADER, *("\t".join(symbol) for symbol in public_symbols())]) + "\n"


def main() -> None:
    """Write the list of names, or the table and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--symbols", action="store_true", help="list the names; needs TensorFlow")
    parser.add_argument("--check", action="store_true", help="only compare the files")
    options = parser.parse_args()
    files = (
        {SYMBOLS: symbols_text()} if options.symbols else {TABLE: table_text(), PAGE: page_text()}
    )
    for path, text in files.items():
        if not options.check:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            sys.exit(f"{path} is not up to date; run {Path(__file__).name}")


if __name__ == "__main__":
    main()
