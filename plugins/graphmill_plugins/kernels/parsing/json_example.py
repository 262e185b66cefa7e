"""DecodeJSONExample: convert JSON examples to serialized ones.

Semantics: tensorflow/core/kernels/example_parsing_ops.cc, DecodeJSONExampleOp.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import json_format

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.protos import Example
from graphmill_plugins.kernels._strings import decode, map_strings

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("DecodeJSONExample", host=True)
def decode_json_example(json_examples: Value) -> Value:
    """Return the serialized `Example` of each JSON text."""
    return map_strings(_encoded, json_examples)


def _encoded(text: bytes) -> bytes:
    try:
        message = json_format.Parse(text.decode("utf-8"), Example())
        return message.SerializeToString(deterministic=True)
    except (json_format.ParseError, UnicodeError, RecursionError, ValueError) as error:
        raise InvalidArgumentError(
            f"Error while parsing JSON into Example: {error}; the text begins with "
            f"{decode(text)[:80]!r}"
        ) from error
