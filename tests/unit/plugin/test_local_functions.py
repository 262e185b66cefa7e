"""Functions of this process that graphs refer to by tokens."""

from __future__ import annotations

import gc

import pytest

from graphmill import errors
from graphmill.plugin.functions import load_function
from graphmill.plugin.local_functions import LocalFunction, functions_kept_for


class Owner:
    """Stands for a graph."""


def test_token_finds_the_function() -> None:
    one, other = LocalFunction(len, "count"), LocalFunction(max, "count")
    assert one.token != other.token
    assert load_function(one.token) is len
    assert load_function(other.token) is max


def test_function_lives_as_long_as_the_graphs_that_keep_it() -> None:
    first, second = Owner(), Owner()
    function = LocalFunction(len, "count")
    token = function.token
    function.keep_for(first)
    for kept in functions_kept_for(first):
        kept.keep_for(second)
    del function, kept, first
    gc.collect()
    assert load_function(token) is len
    del second
    gc.collect()
    with pytest.raises(errors.NotFoundError, match="'count' exists only in the process"):
        load_function(token)
