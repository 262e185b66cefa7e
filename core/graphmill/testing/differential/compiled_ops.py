"""Compare compiled ops with interpreted ones, on special values.

    differences = value_differences("Igamma", cases, host)

A few stored cases of an op supply shapes, types and attrs. Their values are replaced by zeros of
both signs, infinities, NaN and extremes, in all combinations if the op allows this. Two sessions
run each case: one interprets it, the other compiles it before the first step.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import OpError
from graphmill.session.session import Session
from graphmill.testing.case_graph import case_graph
from graphmill.testing.case_inputs import Input
from graphmill.testing.compare import difference
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.runners.kernel_runner import checked_result, result_of
from graphmill.testing.tolerances import tolerance_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.golden import CaseResult

    Feeds = Mapping[str, Any]

_MAX_CASES: Final = 10  # cases of an op, each with other types and attrs
_DRAWS: Final = 3  # draws of values for the shapes of a case
_MAX_COMBINED_INPUTS: Final = 3  # ops with more inputs aren't run for all combinations
_NUMBERS: Final = "iufc"

_SIZED_BY_INDICES: Final = frozenset({"DynamicStitch", "ParallelDynamicStitch"})

FLUSHED: Final = frozenset({"SqrtGrad", "FloorDiv"})
"""Ops that are left out. They differ only for subnormal numbers, which compiled code flushes to
zero, as TensorFlow's threads do."""


def value_differences(op: str, cases: Sequence[Case], host: Host) -> Iterator[str]:
    """Yield the differences between the tiers for the cases of one op.

    Args:
        op: its name.
        cases: its stored cases; programs and skipped cases are left out.
        host: the host of the sessions.
    """
    for case in islice(_distinct(cases), _MAX_CASES):
        detail = _first_difference(case, host)
        if detail:
            yield f"{op}, {case.id}: {detail}"


def _distinct(cases: Iterable[Case]) -> Iterator[Case]:
    seen = set()
    for case in cases:
        leaves = _leaves(case)
        if case.program or case.error or not leaves or case.skip.get("jit"):
            continue
        if any(as_dtype(one.dtype).name == "string" for one in leaves):
            continue
        key = (*(one.dtype for one in leaves), repr(sorted(case.attrs.items())))
        if key not in seen:
            seen.add(key)
            yield case


def _leaves(case: Case) -> list[Input]:
    trees = (tree if isinstance(tree, tuple) else (tree,) for tree in case.inputs)
    return [one for tree in trees for one in tree]


def _first_difference(case: Case, host: Host) -> str:
    graph = case_graph(case, host.ops)
    plain_case = replace(case, differs="", error="", error_from="", expect=())
    with (
        Session(graph=graph.graph_def, config=jit_config("off"), host=host) as interpreted,
        Session(graph=graph.graph_def, config=jit_config("eager"), host=host) as compiled,
    ):
        for feeds in _feeds(case, graph.feeds, combine=not _has_sizes(case, host)):
            expected, actual = (
                _result(session, graph, feeds) for session in (interpreted, compiled)
            )
            detail = difference(plain_case, expected, actual, "jit")
            if expected.error and expected.message != actual.message and not detail:
                detail = f"the error is {actual.message!r}, not {expected.message!r}"
            if detail:
                return f"{detail}; {_brief(feeds)}"
    return ""


def _brief(feeds: Feeds) -> str:
    return ", ".join(f"{value.dtype}{list(value.shape)}" for value in feeds.values())


def _result(session: Session, graph: Any, feeds: Feeds) -> CaseResult:
    def run() -> CaseResult:
        results: list[Any] = []
        for fetches, targets in graph.steps:
            results += session.run(list(fetches), dict(feeds), targets=list(targets))
        return checked_result(results, [as_dtype(name) for name in graph.dtypes])

    return result_of(run, (OpError,))


def _has_sizes(case: Case, host: Host) -> bool:
    """Return whether the op has inputs such as shapes or indices that allow only some values."""
    kernels = host.kernels.registrations(host.ops.get(case.op), ("jax", "numpy"))
    definitions = [entry.definition for entry in kernels]
    return (
        any(one.static or one.dynamic_shape for one in definitions) or case.op in _SIZED_BY_INDICES
    )


def _feeds(case: Case, feeds: Feeds, *, combine: bool) -> Iterator[Feeds]:
    """Yield values for the inputs of a case: in its own shapes, then all combinations.

    Operations that refuse negative numbers would refuse all combinations of integers, so those of
    the others follow.
    """
    small = " small" if tolerance_of(case.op).by_scale else ""
    for seed in range(_DRAWS):
        yield {
            name: _special(value, small, seed + 97 * index, floats_only=seed != _DRAWS - 1)
            for index, (name, value) in enumerate(feeds.items())
        }
    kinds = [value.dtype.kind for value in feeds.values()]
    if combine and len(kinds) <= _MAX_COMBINED_INPUTS and all(kind in _NUMBERS for kind in kinds):
        pools = [_pool(value.dtype, small) for value in feeds.values()]
        yield _combinations(feeds, pools)
        if set(kinds) == {"i"}:
            yield _combinations(feeds, [pool[pool >= 0] for pool in pools])


def _combinations(names: Iterable[str], pools: Sequence[Any]) -> Feeds:
    grid = np.meshgrid(*pools, indexing="ij")
    return {name: one.reshape(-1) for name, one in zip(names, grid, strict=True)}


def _special(value: Any, small: str, seed: int, *, floats_only: bool) -> Any:
    kind = value.dtype.kind
    name = as_dtype(value.dtype).name
    is_float = kind in "fc" or name.endswith("float16")
    if not is_float and (floats_only or kind not in "iu"):
        return value
    if not is_float:  # integers may be sizes: large ones would exhaust the memory
        small = " small"
    return Input(name, value.shape, f"special{small}", 1_000 + seed).values()


def _pool(dtype: Any, small: str) -> Any:
    return Input(as_dtype(dtype).name, None, f"special{small}", 0).values()
