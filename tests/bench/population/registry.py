"""The cases of the population: `@case` registers a function that builds a graph.

A builder adds nodes to TensorFlow's default graph and returns a `Built`. One function stands for
several cases, one for each of its `variants`, whose values fill the braces of the case's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


class Built(NamedTuple):
    """The graph of a case, as its builder returns it.

    Attributes:
        feeds: the fed arrays by name of the placeholder.
        fetches: the fetched tensors.
        targets: the operations to run in addition.
    """

    feeds: dict[str, Any]
    fetches: list[Any]
    targets: tuple[Any, ...] = ()


class Case(NamedTuple):
    """One case.

    Attributes:
        name: its name, and that of its folder.
        family: the module that defines it.
        build: builds its graph.
        arguments: the arguments of `build`.
        spec: further entries of `case.json`: `steps`, `rtol`, `atol`, `compare`.
    """

    name: str
    family: str
    build: Callable[..., Built]
    arguments: Mapping[str, Any]
    spec: Mapping[str, Any]


CASES: dict[str, Case] = {}
"""All cases by name."""


def case(
    name: str, variants: Iterable[Mapping[str, Any]] = ({},), **spec: Any
) -> Callable[[Callable[..., Built]], Callable[..., Built]]:
    """Register the decorated builder under a name for each of its variants."""

    def register(build: Callable[..., Built]) -> Callable[..., Built]:
        for arguments in variants:
            one = name.format(**arguments)
            if one in CASES:
                raise ValueError(f"two cases are named {one}")
            family = build.__module__.rpartition(".")[2]
            CASES[one] = Case(one, family, build, arguments, spec)
        return build

    return register


def each(**axes: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the variants of the product of some axes."""
    variants: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        variants = [{**variant, name: value} for variant in variants for value in values]
    return variants
