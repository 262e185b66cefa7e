"""`Source`: the source of an input's value: a file, a literal, an expression or `tf.Example`s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TRY_EACH: Final = (
    "try: graphmill run --each FILES, for folders, patterns, tables and standard input"
)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of an input's value: a file, a literal, an expression, or `tf.Example`s.

    Attributes:
        name: the input: its key in the signature, or a tensor name `"x:0"`; empty for the only
            input of the model.
        kind: `"file"`, `"literal"` (short form), `"expression"` or `"examples"`.
        text: the path of the file, or the expression as the user typed it.
        key: which array of an `.npz`, or which member of a JSON object; None if not given.
    """

    name: str
    kind: str
    text: str
    key: str | None = None

    def __str__(self) -> str:
        if self.kind == "file":
            return self.text + (f"[{self.key}]" if self.key else "")
        return self.text if len(self.text) <= 40 else self.text[:37] + "..."
