"""Compiled steps match interpreted ones: random graphs, and op cases in clusters (E7, S6).

More of them: `tools/verify_jit.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.differential.compiled_graphs import KINDS, find_jit_difference
from graphmill.testing.runners.backends import runner
from graphmill.testing.runners.kernel_runner import NotApplicableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case

pytestmark = [pytest.mark.jax, pytest.mark.divided]

_EVERY = 127  # op cases


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_random_graphs_match_the_interpreter_e7(kind: str, graphmill_host: Host) -> None:
    for seed in range(5 if kind == "flat" else 10):
        assert not find_jit_difference(kind, seed, graphmill_host)


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_on_a_device_of_jax_match_the_interpreter_p2(
    kind: str, deterministic: bool, graphmill_host: Host
) -> None:
    for seed in range(40, 43):
        assert not find_jit_difference(
            kind, seed, graphmill_host, deterministic=deterministic, device_type="XLA_CPU"
        )


@pytest.mark.parametrize("kind", ["variables", "references"])
def test_random_graphs_whose_variables_are_all_written_in_place_e7(
    kind: str, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphmill_plugins.jit.programs import compiler

    monkeypatch.setattr(compiler, "MIN_BYTES", 0)
    for seed in range(100, 110):
        assert not find_jit_difference(kind, seed, graphmill_host)


@pytest.mark.parametrize("kind", KINDS)
def test_straight_line_code_gives_the_same_bits_e7(kind: str, graphmill_host: Host) -> None:
    for seed in range(20, 35):
        assert not find_jit_difference(kind, seed, graphmill_host, deterministic=True)


def wrong_ones(cases: Iterable[Case], host: Host) -> list[str]:
    runner_of_jit: Any = runner("jit", host)
    wrong = []
    for case in cases:
        try:
            difference = verdict(case, runner_of_jit.run, "jit")
        except NotApplicableError:
            continue
        if difference:
            wrong.append(f"{case.id}: {difference}")
    return wrong


def test_compiled_op_cases_match_the_interpreter_s6(graphmill_host: Host) -> None:
    assert not wrong_ones(load_cases()[7::_EVERY], graphmill_host)


def test_compiled_structures_refuse_the_interpreter_s_errors_s12(graphmill_host: Host) -> None:
    """Lowerings of arrays, lists and stacks refuse what the kernels refuse."""
    names = ("TensorArray", "TensorList", "EmptyTensorList", "Stack")
    refused = [case for case in load_cases() if case.error and case.op.startswith(names)]
    assert len(refused) > 50
    assert not wrong_ones(refused[::3], graphmill_host)
