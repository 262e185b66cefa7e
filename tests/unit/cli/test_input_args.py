"""Input arguments of the command line are parsed."""

from __future__ import annotations

import pytest

from graphmill import errors
from graphmill.cli.input_args import (
    TRY_EACH,
    Source,
    parse_examples,
    parse_expressions,
    parse_inputs,
    parse_short,
    unique,
)


def test_short_forms_of_files_keys_and_literals_are_parsed() -> None:
    assert parse_short(["image=@a b.png", "x=@f.npz[k]", "y=[1,2]", "x:0=3"]) == [
        Source("image", "file", "a b.png"),
        Source("x", "file", "f.npz", "k"),
        Source("y", "literal", "[1,2]"),
        Source("x:0", "literal", "3"),
    ]


@pytest.mark.parametrize("argument", ["=@x", "image=", "@", ""])
def test_invalid_input_is_refused_with_an_example(argument: str) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        parse_short([argument])
    assert "NAME=@FILE" in caught.value.__notes__[0]


def test_value_without_name_is_for_the_only_input() -> None:
    assert parse_short(["@a=b.png"]) == [Source("", "file", "a=b.png")]
    assert parse_short(["good fun"]) == [Source("", "literal", "good fun")]


def test_two_values_without_name_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="the only input is given twice"):
        unique(parse_short(["@a.png", "@b.png"]))


def test_inputs_of_saved_model_cli_are_parsed() -> None:
    assert parse_inputs("x=f.npy[key];y=g.npz[k]; z=/tmp/h.npy;") == [
        Source("x", "file", "f.npy", "key"),
        Source("y", "file", "g.npz", "k"),
        Source("z", "file", "/tmp/h.npy"),
    ]


def test_saved_model_cli_expressions_keep_semicolons_in_strings() -> None:
    assert parse_expressions('x=np.ones((1, 3));y=[\'a;b\', "c\\";"]') == [
        Source("x", "expression", "np.ones((1, 3))"),
        Source("y", "expression", '[\'a;b\', "c\\";"]'),
    ]


def test_examples_of_saved_model_cli_are_parsed() -> None:
    text = 'e=[{"age": [22], "name": ["a=b"]}]'
    assert parse_examples(text) == [Source("e", "examples", text[2:])]


@pytest.mark.parametrize("text", ["x", "x=;y=1", "=np.ones(3)"])
def test_pairs_without_name_or_value_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="NAME=VALUE"):
        parse_expressions(text)


def test_an_input_given_twice_is_refused() -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=r"'x' is given twice: 1 and f.npy"
    ) as caught:
        unique([*parse_short(["x=1"]), *parse_inputs("x=f.npy")])
    assert caught.value.__notes__ == [TRY_EACH]
