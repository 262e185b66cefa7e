"""`Row`: one row of the inputs of a batch run, and its location in the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.errors import OpError
    from graphmill.inputs.input_spec import InputSpec


class Content(Protocol):
    """The content of a file for one row; it is decoded when the row is converted."""

    def values(self, specs: Mapping[str, InputSpec], location: str) -> dict[str, Any]:
        """Return a value for each input in `specs`, which describe rows without batch dimension.

        Raises:
            OpError: the content is damaged, or lacks an input; the message starts with `location`.
        """


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the input files, or of the caller's Python values.

    Attributes:
        index: its position among the rows of all files.
        file: the file as the user named it; "" for rows from Python.
        line: its line or record in the file, from 1; None if it is the whole file.
        content: what the file holds for it; an error if that part of the file is damaged.
        position: the bytes of all files that were read up to here, for the time left.
    """

    index: int
    file: str
    line: int | None
    content: Content | OpError
    position: int = 0

    @property
    def location(self) -> str:
        """The file and line, as in `people.csv:17`."""
        if not self.file:
            return f"row {self.index + 1}"
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Failure:
    """A row without outputs, and the error that says why."""

    row: Row
    error: OpError

    @property
    def text(self) -> str:
        """The error's message, with the file and line of the row."""
        location, message = self.row.location, self.error.message
        return message if message.startswith(location) else f"{location}: {message}"
