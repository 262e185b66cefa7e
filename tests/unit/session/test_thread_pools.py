"""Thread pools of a session: which one a step gets, and numbers of threads that are refused."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, proto
from graphmill.session.thread_pools import ThreadPools


def pools(**fields: Any) -> ThreadPools:
    return ThreadPools(proto.ConfigProto(**fields), graphmill.Host())


@pytest.mark.parametrize("name", ["", "shared"])
def test_a_pool_with_a_negative_number_of_threads_is_refused(name: str) -> None:
    several = [{"num_threads": 1}, {"num_threads": -5, "global_name": name}]
    with pytest.raises(errors.InvalidArgumentError, match=r"pool\[1\]\.num_threads is -5"):
        pools(session_inter_op_thread_pool=several)


def test_a_step_may_choose_a_pool_or_the_thread_of_its_caller() -> None:
    made = pools(session_inter_op_thread_pool=[{"num_threads": 1}, {"num_threads": 2}])
    assert made.get(0) is made.default
    assert made.get(1) is not made.default
    assert made.get(-1) is None
    made.close()


@pytest.mark.parametrize("index", [2, -2])
def test_a_pool_that_does_not_exist_is_refused(index: int) -> None:
    made = pools(session_inter_op_thread_pool=[{"num_threads": 1}, {"num_threads": 1}])
    with pytest.raises(errors.InvalidArgumentError, match="the session has 2 pools"):
        made.get(index)
    made.close()


def test_a_negative_number_of_threads_of_the_session_means_none() -> None:
    made = pools(inter_op_parallelism_threads=-1)
    assert made.default is None
