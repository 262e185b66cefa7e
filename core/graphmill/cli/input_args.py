"""Parse input arguments: `NAME=@FILE`, `NAME=VALUE`, and the options of `saved_model_cli`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.inputs.source import TRY_EACH, Source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WITH_KEY = re.compile(r"(?P<file>[^\[\]]+)\[(?P<key>[^\[\]]+)\]")
_OPENING = dict(zip("([{", ")]}", strict=True))


def parse_short(arguments: Iterable[str]) -> list[Source]:
    """Parse the short form: each argument is `NAME=@FILE`, `NAME=@FILE[KEY]` or `NAME=VALUE`.

    `@FILE`, or a value without an equals sign, is for the only input of the model.
    """
    return [_short(argument) for argument in arguments]


def parse_inputs(text: str) -> list[Source]:
    """Parse `--inputs`: `x=file.npy;y=file.npz[key]`."""
    return [_file(name, value) for name, value in _pairs(text, "--inputs 'x=FILE[KEY]'")]


def parse_expressions(text: str) -> list[Source]:
    """Parse `--input_exprs`: `x=np.ones((1, 3));y=[1, 2]`."""
    pairs = _pairs(text, "--input_exprs 'x=np.ones((1, 3))'")
    return [Source(name, "expression", value) for name, value in pairs]


def parse_examples(text: str) -> list[Source]:
    """Parse `--input_examples`: `x=[{"age": [22.0], "name": ["ann"]}]` or `x=@FILE.json`."""
    pairs = _pairs(text, """--input_examples 'x=[{"age": [22.0]}]'""")
    return [Source(name, "examples", value) for name, value in pairs]


def unique(sources: Iterable[Source]) -> dict[str, Source]:
    """Return the sources by input name; raise if an input is given twice."""
    by_name: dict[str, Source] = {}
    for source in sources:
        if source.name in by_name:
            shown = f"input {source.name!r}" if source.name else "the only input"
            error = InvalidArgumentError(
                f"{shown} is given twice: {by_name[source.name]} and {source}"
            )
            error.add_note(TRY_EACH)
            raise error
        by_name[source.name] = source
    return by_name


def _short(argument: str) -> Source:
    if argument.startswith("@") and len(argument) > 1:
        return _file("", argument[1:])
    name, equals, value = argument.partition("=")
    if argument and not equals and argument != "@":
        return Source("", "literal", argument)
    if not name or not value:
        error = InvalidArgumentError(f"{argument!r} is not an input")
        error.add_note("try: NAME=@FILE or NAME=VALUE, as in image=@seven.png or x=[1,2,3]")
        raise error
    if value.startswith("@"):
        return _file(name, value[1:])
    return Source(name, "literal", value)


def _file(name: str, value: str) -> Source:
    matched = _WITH_KEY.fullmatch(value)
    if matched:
        return Source(name, "file", matched["file"], matched["key"])
    return Source(name, "file", value)


def _pairs(text: str, example: str) -> Iterator[tuple[str, str]]:
    for part in _split(text):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            error = InvalidArgumentError(f"{part!r} is not of the form NAME=VALUE")
            error.add_note(f"try: {example}")
            raise error
        yield name.strip(), value.strip()


def _split(text: str) -> Iterator[str]:
    """Split at semicolons outside quotes and brackets; empty parts are dropped."""
    part, closing, quote, escaped = "", "", "", False
    for character in text:
        if character == ";" and not closing and not quote:
            if part.strip():
                yield part
            part = ""
            continue
        part += character
        if quote:
            quote = "" if character == quote and not escaped else quote
            escaped = character == "\\" and not escaped
        elif character in "'\"":
            quote = character
        elif character in _OPENING:
            closing += _OPENING[character]
        elif closing and character == closing[-1]:
            closing = closing[:-1]
    if part.strip():
        yield part
