"""Compiled random programs with effects compute the same as plain Python (clauses E3, E7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill.testing.generators.control_flow_programs import random_program

if TYPE_CHECKING:
    from graphmill.plugin.host import Host

pytestmark = [pytest.mark.jax, pytest.mark.divided]


@pytest.mark.parametrize("seed", [20, 25, 52, 56])  # with effects in conditions of loops
def test_compiled_programs_have_the_same_effects_e7(seed: int, graphmill_host: Host) -> None:
    program = random_program(seed)
    graph = graphmill.Graph()
    parts = program.build(graph)
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph, host=graphmill_host, config=config) as session:
        for number in (-2, 5):
            assert parts.run(session, number) == program.expected(number)
