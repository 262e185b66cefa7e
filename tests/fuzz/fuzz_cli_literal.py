"""Fuzz target: inputs of the command line."""

from __future__ import annotations

from typed_errors import typed_errors

from graphmill.cli import input_args
from graphmill.inputs import literals


def seeds() -> list[bytes]:
    """Return one argument of each form."""
    return [
        b"x=[1,2,3]",
        b"x=@file.npz[key]",
        b"x=np.ones((1, 3));y=[1, 2]",
        b'x=[{"age": [22], "name": ["ann"]}]',
        b"x='text;';y=(1, -2.5, True, None)",
        b"np.arange(6, dtype=np.float32).reshape(2, 3) * 2 ** 3",
    ]


def fuzz(data: bytes) -> None:
    """Parse the text in each form."""
    text = data.decode("utf-8", "surrogateescape")
    parsers = (
        lambda value: input_args.parse_short([value]),
        input_args.parse_inputs,
        input_args.parse_expressions,
        input_args.parse_examples,
    )
    for parse in parsers:
        with typed_errors():
            input_args.unique(parse(text))
    with typed_errors():
        literals.evaluate(text)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
