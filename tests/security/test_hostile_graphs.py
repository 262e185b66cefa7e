"""Each effect is refused at each place of a graph, and works there if a rule allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.security.hostile import (
    EFFECTS,
    PLACES,
    REFUSED,
    contents,
    feeds,
    hidden_graph,
    make_targets,
    recorded,
)

import graphmill

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.hostile import Effect

CASES = [(effect, place) for effect in EFFECTS for place in PLACES]
IDS = [f"{effect} in {place}" for effect, place in CASES]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


def rules_of(effect: Effect, folder: Path) -> list[str]:
    return [rule.format(folder=folder) for rule in effect.rules]


def run(effect: Effect, place: str, folder: Path, **options: Any) -> Any:
    path = str(folder / effect.path)
    graph = hidden_graph(effect, PLACES[place], path)
    with graphmill.Session(graph=graph, **options) as session:
        return session.run(PLACES[place].fetch, feeds(PLACES[place], path))


@pytest.mark.parametrize(("name", "place"), CASES, ids=IDS)
def test_effect_is_refused(name: str, place: str, folder: Path) -> None:
    effect = EFFECTS[name]
    before = contents(folder)
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not") as caught:
        run(effect, place, folder, allow=[])
    assert contents(folder) == before
    assert events == []
    assert f"the op {effect.op} may not" in caught.value.message
    assert caught.value.node
    assert caught.value.op_type == effect.op
    assert "allow=[" in caught.value.message
    requested = effect.asks or effect.rules[0].partition(":")[0]
    assert f"(effect {requested!r})" in caught.value.message


@pytest.mark.parametrize(("name", "place"), CASES, ids=IDS)
def test_effect_works_where_it_is_allowed(name: str, place: str, folder: Path) -> None:
    effect = EFFECTS[name]
    if effect.error is None:
        run(effect, place, folder, allow=rules_of(effect, folder))
        return
    with pytest.raises(effect.error):
        run(effect, place, folder, allow=rules_of(effect, folder))
