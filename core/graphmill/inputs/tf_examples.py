"""Make serialized `tf.Example`s from Python dicts, for `--input_examples`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.proto.feature_pb2 import Feature


def serialized_examples(value: Any, name: str) -> list[bytes]:
    """Return one serialized `tf.Example` for each dict in a list.

    Each value of a dict is a list of ints, floats, or strings.

    Raises:
        InvalidArgumentError: the value has another form.
    """
    from graphmill.proto.example_pb2 import Example

    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InvalidArgumentError(f"--input_examples needs a list of dicts for input {name!r}")
    serialized = []
    for item in value:
        example = Example()
        for key, members in item.items():
            _fill(example.features.feature[key], members, f"feature {key!r} of input {name!r}")
        serialized.append(example.SerializeToString(deterministic=True))
    return serialized


def _fill(feature: Feature, members: Any, label: str) -> None:
    if not isinstance(members, list):
        raise InvalidArgumentError(f"{label} must be a list, but it is {type(members).__name__}")
    if all(isinstance(member, (str, bytes)) for member in members):
        feature.bytes_list.value.extend(
            member.encode() if isinstance(member, str) else member for member in members
        )
    elif all(isinstance(member, int) for member in members):
        if not all(-(2**63) <= member < 2**63 for member in members):
            raise InvalidArgumentError(
                f"{label} has an integer that an int64 cannot hold; write a float, such as 1e20"
            )
        feature.int64_list.value.extend(members)
    elif all(isinstance(member, (int, float)) for member in members):
        feature.float_list.value.extend(members)
    else:
        raise InvalidArgumentError(f"{label} mixes numbers with strings, or has neither")
