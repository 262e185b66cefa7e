"""Write docs/reference/config-fields.md: the effect of each field of the configuration.

python tools/make_config_reference.py            write it
python tools/make_config_reference.py --check    fail if it differs from what would be written
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill import proto
from graphmill.session.config_check import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDER: Final = Path(__file__).parents[1] / "docs" / "reference"
PAGE: Final = FOLDER / "config-fields.md"
MESSAGES: Final = ("ConfigProto", "RunOptions", "CallableOptions")
_EFFECTS: Final = {"acts": "acts", "none": "no effect"}
_HEAD: Final = """\
# Fields of the configuration

This page is for people who bring a configuration from TensorFlow. It lets you look up what each
field does: it acts, it is refused with a typed error, or it has no effect, with the reason.
[Session configuration](config.md) explains those that act. The page is generated
(`python tools/make_config_reference.py`), and a test checks that no field is missing.
"""
_TABLE: Final = ("", "| field | effect | details or reason |", "|---|---|---|")


class Field(NamedTuple):
    """The effect of a field: `acts`, `refused` or `no effect`, with details or the reason."""

    effect: str
    text: str


def declared(message: str) -> dict[str, Field]:
    """Return the declarations of a message; a name that ends with `.*` covers all fields below."""
    table = tomllib.loads((FOLDER / "config-fields.toml").read_text("utf-8"))[message]
    found = {
        path: Field(_EFFECTS[effect], text)
        for effect, fields in table.items()
        for path, text in fields.items()
    }
    if message == "ConfigProto":
        for path, (kind, reason) in REFUSED.items():
            found[path] = Field("refused", f"`{kind.__name__}`: {reason}")
    return found


def paths_of(message: str) -> list[str]:
    """Return the paths of all fields of a message that hold values."""
    return list(_paths(getattr(proto, message).DESCRIPTOR, ""))


def _paths(descriptor: Any, prefix: str) -> Iterator[str]:
    for field in descriptor.fields:
        kind = field.message_type
        if kind is None or kind.GetOptions().map_entry:
            yield f"{prefix}{field.name}"
        else:
            yield from _paths(kind, f"{prefix}{field.name}.")


def declaration_of(path: str, fields: Mapping[str, Field]) -> str | None:
    """Return the declared name that covers a path: its own, or the nearest message's."""
    if path in fields:
        return path
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:count])
        for name in (prefix, f"{prefix}.*"):
            if name in fields:
                return name
    return None


def page() -> str:
    """Return the page.

    Raises:
        KeyError: a field is not declared.
    """
    lines = [_HEAD]
    for message in MESSAGES:
        fields = declared(message)
        names = [declaration_of(path, fields) for path in paths_of(message)]
        if None in names:
            missing = [p for p in paths_of(message) if declaration_of(p, fields) is None]
            raise KeyError(f"not declared: {', '.join(missing)}")
        lines += [f"## `{message}`", *_TABLE]
        for name in dict.fromkeys(filter(None, names)):
            lines.append(f"| `{name}` | {fields[name].effect} | {fields[name].text} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit status."""
    text = page()
    if arguments == ["--check"]:
        if PAGE.read_text("utf-8") == text:
            return 0
        print(f"{PAGE} is out of date; run python {Path(__file__).name}")
        return 1
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
