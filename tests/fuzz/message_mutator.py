"""Mutate protobuf messages field by field, so that the result can still be parsed.

Random damage to the bytes of a nested message almost always breaks a length, and the input ends in
the parser. A target whose inputs are messages has

    read_message(data)              the message in an input; None if there is none
    write_message(message, data)    the input with this message in place of its own

and half of its inputs are made here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from google.protobuf.message import Message

MAX_MUTATIONS = 4
_MAX_DEPTH = 12
"""Messages nested deeper are not changed, because some message types contain themselves."""
_INTEGERS = (0, 1, -1, 2, 3, 7, 255, 2**16, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 3e38, float("inf"), float("nan"))
_SIGNED = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
_UNSIGNED = (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
_WIDE = (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
_UNKNOWN_ENUM_VALUES = (-1, 23, 99, 109, 2**31 - 1)


class MessageMutator:
    """Changes messages with parts of the messages that the seeds consist of.

    Args:
        seeds: the messages of the seeds.
        words: the words of the target's dictionary.
        rng: the source of all choices.
    """

    def __init__(self, seeds: Sequence[Message], words: Sequence[bytes], rng: random.Random):
        self._rng = rng
        self._seeds = seeds
        self._parts: dict[str, list[Message]] = {}
        texts = set(words)
        for seed in seeds:
            for part in _parts(seed):
                self._parts.setdefault(part.DESCRIPTOR.full_name, []).append(part)
                texts.update(_texts(part))
        self._texts = sorted(texts)

    def mutated(self, index: int) -> Message:
        """Return a copy of the seed at `index` with some changes."""
        seed = self._seeds[index]
        message = type(seed)()
        message.CopyFrom(seed)
        for _ in range(self._rng.randint(1, MAX_MUTATIONS)):
            self._change(self._rng.choice(list(_parts(message))))
        return message

    def _change(self, message: Message) -> None:
        """Change one field, mostly one that is set."""
        present = [field for field, _ in message.ListFields()]
        fields = present if present and self._rng.random() < 0.8 else message.DESCRIPTOR.fields
        if not fields:
            return
        field = self._rng.choice(fields)
        if _is_map(field):
            self._change_map(getattr(message, field.name), field)
        elif field.is_repeated:
            self._change_list(getattr(message, field.name), field)
        elif field.message_type is None:
            setattr(message, field.name, self._scalar(field, getattr(message, field.name)))
        elif self._rng.random() < 0.3:
            message.ClearField(field.name)
        else:
            getattr(message, field.name).CopyFrom(self._part(field.message_type))

    def _change_map(self, entries: Any, field: FieldDescriptor) -> None:
        key_field, value_field = field.message_type.fields
        keys = sorted(entries)
        if keys and self._rng.random() < 0.5:
            del entries[self._rng.choice(keys)]
            return
        key = self._scalar(key_field)
        if value_field.message_type is None:
            entries[key] = self._scalar(value_field)
        elif keys and self._rng.random() < 0.5:
            entries[key].CopyFrom(entries[self._rng.choice(keys)])
        else:
            entries[key].CopyFrom(self._part(value_field.message_type))

    def _change_list(self, values: Any, field: FieldDescriptor) -> None:
        kind = self._rng.randrange(5) if len(values) else 1
        index = self._rng.randrange(len(values)) if len(values) else 0
        if kind == 0:
            del values[index]
        elif field.message_type is None:
            if kind == 1:
                values.append(self._scalar(field))
            elif kind == 2:
                values.append(values[index])
            else:
                values[index] = self._scalar(field, values[index])
        elif kind == 1:
            values.add().CopyFrom(self._part(field.message_type))
        elif kind == 2:
            values.add().CopyFrom(values[index])
        else:
            values[index].CopyFrom(self._part(field.message_type))

    def _part(self, descriptor: Any) -> Message:
        """Return a message of a type from the seeds; an empty one if they have none."""
        from google.protobuf.message_factory import GetMessageClass

        known = self._parts.get(descriptor.full_name)
        return self._rng.choice(known) if known else GetMessageClass(descriptor)()

    def _scalar(self, field: FieldDescriptor, value: Any = None) -> Any:
        """Return another value for a field, or an element for a repeated one."""
        rng, kind = self._rng, field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_STRING:
            return self._text(field, value)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return not value
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            known = [one.number for one in field.enum_type.values]
            return rng.choice(known if rng.random() < 0.9 else _UNKNOWN_ENUM_VALUES)
        if kind in _SIGNED or kind in _UNSIGNED:
            old = value or 0
            chosen = rng.choice((*_INTEGERS, old + 1, old - 1, rng.getrandbits(64)))
            return _wrapped(chosen, bits=64 if kind in _WIDE else 32, signed=kind in _SIGNED)
        return _rounded(rng.choice((*_FLOATS, (value or 1.0) * 2)), field)

    def _text(self, field: FieldDescriptor, value: Any) -> Any:
        """Return another string or bytes: one of the seeds, or the current one, damaged."""
        is_bytes = field.type == FieldDescriptor.TYPE_BYTES
        content = bytearray((value if is_bytes else value.encode()) if value else b"")
        kind = self._rng.randrange(4)
        if kind < 2 and self._texts:
            content = bytearray(self._rng.choice(self._texts))
        elif kind == 2:
            content *= self._rng.randint(0, 3)
        else:
            start = self._rng.randint(0, len(content))
            stop = start + self._rng.randint(0, 4)
            content[start:stop] = self._rng.randbytes(self._rng.randint(0, 4))
        return bytes(content) if is_bytes else content.decode("utf-8", "replace")


def _parts(message: Message, depth: int = 0) -> Iterator[Message]:
    """Yield a message and those in it."""
    yield message
    if depth == _MAX_DEPTH:
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if _is_map(field):
            is_message = field.message_type.fields_by_name["value"].message_type is not None
            inner = [value[key] for key in sorted(value)] if is_message else []
        else:
            inner = value if field.is_repeated else [value]
        for one in inner:
            yield from _parts(one, depth + 1)


def _texts(message: Message) -> Iterator[bytes]:
    """Yield the strings and bytes that are fields of a message, keys of maps included."""
    for field, value in message.ListFields():
        if _is_map(field):
            yield from (key.encode() for key in value if isinstance(key, str))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            for one in value if field.is_repeated else [value]:
                yield one if isinstance(one, bytes) else one.encode()


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _wrapped(value: int, *, bits: int, signed: bool) -> int:
    """Return the lowest bits of a number as a value of a field."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def _rounded(value: float, field: FieldDescriptor) -> float:
    """Return a number that a field can hold: `float` fields refuse those out of range."""
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf")
