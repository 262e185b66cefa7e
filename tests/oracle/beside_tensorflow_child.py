"""The subprocess of `test_beside_tensorflow.py`: prints its findings as one line of JSON."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf import message_factory, unknown_fields
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
    OneofDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.message import Message

DEPTH = 3  # how deep messages are nested when a message is filled
OWN_MESSAGES = {"graphmill.GraphmillOptions"}  # in files that are otherwise TensorFlow's


def main(order: str) -> dict[str, object]:
    """Import both libraries in the given order and compare them."""
    if order == "tensorflow_first":
        importlib.import_module("tensorflow")
        files = our_files()
    else:
        files = our_files()
        importlib.import_module("tensorflow")
    findings = Findings()
    for name, ours, twin in files:
        theirs = tensorflows_file(twin)
        if theirs is None:
            findings.files_without_twin.append(name)
            continue
        for enum in ours.enum_types_by_name.values():
            findings.compare_enums(enum, theirs.enum_types_by_name[enum.name])
        for message in ours.message_types_by_name.values():
            if message.full_name in OWN_MESSAGES:
                continue
            findings.compare_messages(message, theirs.message_types_by_name[message.name])
    return vars(findings)


def our_files() -> list[tuple[str, FileDescriptor, str]]:
    """Import our modules of TensorFlow's messages; return name, descriptor, TensorFlow's file."""
    import graphmill.proto

    folder = Path(graphmill.proto.__file__).parent
    found = []
    for path in sorted(folder.glob("*.proto")):
        twin = re.search(r"Wire compatible with (\S+)\.proto", path.read_text())
        if twin is None or not twin.group(1).startswith(("tensorflow/", "xla/")):
            continue  # our own messages, or those of TensorFlow Serving and KServe
        module = importlib.import_module(f"graphmill.proto.{path.stem}_pb2")
        found.append((path.stem, module.DESCRIPTOR, twin.group(1)))
    return found


def tensorflows_file(path: str) -> FileDescriptor | None:
    """Import TensorFlow's module for the .proto file `path`; None if the wheel has none."""
    name = path.replace("/", ".") + "_pb2"
    if path.startswith("xla/"):
        name = f"tensorflow.compiler.{name}"
    try:
        return importlib.import_module(name).DESCRIPTOR
    except ModuleNotFoundError:
        return None


class Findings:
    """The results of the comparison; the attributes are the report."""

    def __init__(self) -> None:
        self.compared = 0
        self.filled_fields = 0
        self.files_without_twin: list[str] = []
        self.different_descriptors: dict[str, str] = {}
        self.misread_by_us: list[str] = []
        self.misread_by_tensorflow: list[str] = []
        self.shared_classes: list[str] = []

    def compare_enums(self, ours: EnumDescriptor, theirs: EnumDescriptor) -> None:
        """Compare the values of two enums."""
        self.compared += 1
        a = sorted((value.name, value.number) for value in ours.values)
        b = sorted((value.name, value.number) for value in theirs.values)
        if a != b:
            self.different_descriptors[ours.full_name] = f"{a} is not {b}"

    def compare_messages(self, ours: Descriptor, theirs: Descriptor) -> None:
        """Compare two messages with their nested messages and encodings."""
        self.compared += 1
        a, b = ({field_facts(f) for f in fields_of(message)} for message in (ours, theirs))
        if a != b:
            self.different_descriptors[ours.full_name] = f"ours {a - b}, TensorFlow's {b - a}"
        for enum in ours.enum_types:
            self.compare_enums(enum, theirs.enum_types_by_name[enum.name])
        for nested in ours.nested_types:
            self.compare_messages(nested, theirs.nested_types_by_name[nested.name])
        if set(ours.nested_types_by_name) != set(theirs.nested_types_by_name):
            self.different_descriptors[f"{ours.full_name} (nested)"] = "other nested messages"
        if not ours.GetOptions().map_entry:
            self.exchange(ours, theirs)

    def exchange(self, ours: Descriptor, theirs: Descriptor) -> None:
        """Exchange filled messages in both directions."""
        our_class = message_factory.GetMessageClass(ours)
        their_class = message_factory.GetMessageClass(theirs)
        if our_class is their_class:
            self.shared_classes.append(ours.full_name)
        for choice in range(most_choices(ours)):
            message = their_class()
            self.filled_fields += fill(message, choice)
            data = message.SerializeToString(deterministic=True)
            read = our_class.FromString(data)
            if has_unknown(read) or read.SerializeToString(deterministic=True) != data:
                self.misread_by_us.append(ours.full_name)
            message = our_class()
            fill(message, choice)
            back = their_class.FromString(message.SerializeToString())
            if has_unknown(back) or back.SerializeToString(deterministic=True) != data:
                self.misread_by_tensorflow.append(ours.full_name)


def fields_of(message: Descriptor) -> list[FieldDescriptor]:
    """Return the fields of a message that TensorFlow may have, too."""
    types = ((field, field.message_type) for field in message.fields)
    return [field for field, kind in types if kind is None or kind.full_name not in OWN_MESSAGES]


def field_facts(field: FieldDescriptor) -> tuple[object, ...]:
    """Return the properties of a field that affect its encoding and meaning."""
    target = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return (
        field.number,
        field.name,
        field.type,
        field.is_repeated,
        field.is_required,
        field.is_packed,
        field.has_presence,
        oneof.name if oneof else "",
        "" if field.is_repeated else repr(default_of(field)),
        re.sub(r"^(tensorflow(\.data)?|graphmill)\b", "", target.full_name) if target else "",
    )


def default_of(field: FieldDescriptor) -> object:
    """Return a singular field's default; messages have none."""
    return None if field.message_type else field.default_value


def most_choices(message: Descriptor) -> int:
    """Return the number of fills of a message that set each member of each oneof once."""
    return max([1, *(len(oneof.fields) for oneof in message.oneofs)])


def fill(message: Message, choice: int, depth: int = DEPTH) -> int:
    """Set every field (of each oneof the member `choice`); return the number of fields."""
    count = 0
    for field in fields_of(message.DESCRIPTOR):
        oneof = field.containing_oneof
        if oneof and field.number != chosen(oneof, choice):
            continue
        if field.message_type and depth == 0:
            continue
        fill_field(message, field, choice, depth)
        count += 1
    return count


def chosen(oneof: OneofDescriptor, choice: int) -> int:
    """Return the field number of the member to set; declarations may differ in order."""
    numbers = sorted(field.number for field in oneof.fields)
    return numbers[choice % len(numbers)]


def fill_field(message: Message, field: FieldDescriptor, choice: int, depth: int) -> None:
    """Set one field to values derived from its number."""
    value = getattr(message, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, content = field.message_type.fields
        if content.message_type:
            fill(value[sample(key, 0)], choice, depth - 1)
        else:
            value[sample(key, 0)] = sample(content, 1)
    elif field.message_type and field.is_repeated:
        for _ in range(2):
            fill(value.add(), choice, depth - 1)
    elif field.message_type:
        value.SetInParent()
        fill(value, choice, depth - 1)
    elif field.is_repeated:
        value.extend(sample(field, index) for index in range(3))
    else:
        setattr(message, field.name, sample(field, 1))


def sample(field: FieldDescriptor, index: int) -> object:
    """Return a value of a scalar field that is not its default."""
    if field.enum_type:
        numbers = sorted({value.number for value in field.enum_type.values})
        return numbers[(index + 1) % len(numbers)]
    if field.type == FieldDescriptor.TYPE_BYTES:
        return b"\xff" * (index + 1)
    return {
        FieldDescriptor.CPPTYPE_BOOL: True,
        FieldDescriptor.CPPTYPE_FLOAT: field.number + index + 0.5,
        FieldDescriptor.CPPTYPE_DOUBLE: field.number + index + 0.125,
        FieldDescriptor.CPPTYPE_INT32: -(field.number * 1000 + index),
        FieldDescriptor.CPPTYPE_INT64: -(field.number * 10**12 + index),
        FieldDescriptor.CPPTYPE_UINT32: 2**31 + field.number + index,
        FieldDescriptor.CPPTYPE_UINT64: 2**63 + field.number + index,
        FieldDescriptor.CPPTYPE_STRING: f"{field.name}{index}",
    }[field.cpp_type]


def messages_in(message: Message) -> Iterator[Message]:
    """Yield `message` and all messages that are reachable from it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type:
                for content in value.values():
                    yield from messages_in(content)
        else:
            for content in value if field.is_repeated else [value]:
                yield from messages_in(content)


def has_unknown(message: Message) -> bool:
    """Return whether any part of `message` has unknown fields."""
    return any(len(unknown_fields.UnknownFieldSet(part)) for part in messages_in(message))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
