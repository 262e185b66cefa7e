"""TensorFlow's Python names and ours: where `tf.reduce_mean` is, or why it is not here.

    graphmill.tensorflow_names.find("tf.nn.softmax").ours   # "graphmill.functions.softmax"

The table, `tensorflow_names.tsv`, is written by `tools/make_tensorflow_names.py`; the page
`docs/reference/names.md` shows it. Errors of unknown names suggest from it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

_FILE: Final = Path(__file__).with_suffix(".tsv")
_ORDER: Final = (
    *("tf.", "tf.compat.v1.", "tf.nn.", "tf.compat.v1.nn.", "tf.math.", "tf.train."),
    *("tf.compat.v1.train.", "tf.data.", "tf.compat.v1.data.", "tf.linalg.", "tf.strings."),
    *("tf.random.", "tf.compat.v1.losses.", "tf.compat.v1.summary.", "tf.bitwise."),
)
"""The namespaces in which `hint` looks for the last part of a name, in this order."""


class Row(NamedTuple):
    """A public name of TensorFlow.

    Attributes:
        name: the name, "tf.nn.softmax".
        ours: our name for it; empty if there is none.
        reason: why there is none; empty if there is one.
    """

    name: str
    ours: str
    reason: str


@cache
def rows() -> tuple[Row, ...]:
    """Return the table."""
    lines = _FILE.read_text("utf-8").splitlines()
    return tuple(Row(*line.split("\t")) for line in lines if not line.startswith("#"))


def find(name: str) -> Row | None:
    """Return the row of a name of TensorFlow ("tf.nn.softmax"); None if it has no such name."""
    return _by_name().get(name)


def hint(name: str, package: str = "") -> str:
    """Return "; tf.matmul is graphmill.functions.matmul here" for a name, or "".

    Args:
        name: the last part of a name that a user looked for: "matmul".
        package: the folder of the package that lacks it. `from package import module` asks the
            package for the module's name first; for such a name the table is not read.
    """
    if package and any(Path(package, file).exists() for file in (f"{name}.py", name)):
        return ""
    for namespace in _ORDER:
        row = find(namespace + name)
        if row is not None and row.ours:
            return f"; {row.name} is {row.ours} here"
        if row is not None:
            return f"; {row.name} has no counterpart here: {row.reason}"
    return ""


@cache
def _by_name() -> dict[str, Row]:
    return {row.name: row for row in rows()}
