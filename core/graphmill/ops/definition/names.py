"""Python names of op functions and their parameters."""

from __future__ import annotations

import keyword


def function_name(op_name: str) -> str:
    """Return the snake_case name of an op's function: `AddV2` is `add_v2`, `If` is `if_`.

    Semantics: GenerateLowerCaseOpName in tensorflow/python/framework/python_op_gen.cc, so names are
    those of TensorFlow's `gen_*_ops` modules. But leading underscores are preserved, and a Python
    keyword gets a trailing underscore, not a leading one.
    """
    stem = op_name.lstrip("_")
    letters = ["_" * (len(op_name) - len(stem))]
    for position, letter in enumerate(stem):
        if letter == ">":
            letters.append("_")
            continue
        starts_word = letter.isupper() and (
            stem[position - 1].islower() or stem[position + 1 : position + 2].islower()
        )
        if position and starts_word and stem[position - 1] != ">":
            letters.append("_")
        letters.append(letter.lower())
    return _not_reserved("".join(letters))


def op_name(name: str) -> str:
    """Return the CamelCase op name of a function: `scale_by` is `ScaleBy`."""
    return "".join(word[:1].upper() + word[1:] for word in name.strip("_").split("_"))


def parameter_name(name: str) -> str:
    """Return the parameter name of an input or attr; `name` is reserved for the node's name."""
    return "name_" if name == "name" else _not_reserved(name)


def _not_reserved(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name
