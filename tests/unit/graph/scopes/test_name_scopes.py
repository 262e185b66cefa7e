"""Unique names, as in TensorFlow (G4)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphmill.graph.scopes.name_scopes import NameScopes


@given(st.lists(st.sampled_from(["x", "X", "x_1", "x_1_1", "y", "X_1"]), max_size=12))
def test_names_never_repeat(names: list[str]) -> None:
    scopes = NameScopes()
    made = [scopes.unique(name).lower() for name in names]
    assert len(set(made)) == len(made)


@given(st.lists(st.sampled_from(["a", "a/", "b", None]), max_size=5))
def test_scopes_close_as_they_opened(names: list[str | None]) -> None:
    scopes = NameScopes()
    before = []
    open_scopes = []
    for name in names:
        before.append(scopes.current)
        open_scopes.append(scopes.scope(name))
        open_scopes[-1].__enter__()
    for outer, scope in zip(reversed(before), reversed(open_scopes), strict=True):
        scope.__exit__(None, None, None)
        assert scopes.current == outer
