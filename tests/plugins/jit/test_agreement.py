"""Compiled steps give what interpreted ones give: random graphs, and op cases in clusters (E7, S6).

More of them: `tools/verify_jit.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.hosts import runner
from graphmill.testing.jit_check import KINDS, find_jit_difference
from graphmill.testing.judge import verdict
from graphmill.testing.runner import NotApplicableError

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

pytestmark = pytest.mark.jax

_EVERY = 127  # op cases


@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_e7(kind: str, graphmill_host: Host) -> None:
    for seed in range(5 if kind == "flat" else 10):
        assert not find_jit_difference(kind, seed, graphmill_host)


def test_op_cases_s6(graphmill_host: Host) -> None:
    asked: Any = runner("jit", graphmill_host)
    wrong = []
    for case in load_cases()[7::_EVERY]:
        try:
            difference = verdict(case, asked.run, "jit")
        except NotApplicableError:
            continue
        if difference:
            wrong.append(f"{case.id}: {difference}")
    assert not wrong, "\n".join(wrong)
