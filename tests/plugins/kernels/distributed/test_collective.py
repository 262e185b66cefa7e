"""Collectives between the devices of one session return TensorFlow's results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops, proto
from graphmill.spi import Device
from graphmill.spi.kernels import CollectiveExecutor

if TYPE_CHECKING:
    from collections.abc import Callable

C = ops.distributed


def run(make: Callable[[int], Any], devices: int = 2, jit: str = "", runs: int = 1) -> list[Any]:
    """Run the nodes that `make` adds for each device; return the last step's values by device."""
    graph = graphmill.Graph()
    fetches = []
    with graph.as_default():
        for index in range(devices):
            with graph.device(f"/device:CPU:{index}"):
                fetches.append(make(index))
    config = proto.ConfigProto(device_count={"CPU": devices}, graphmill={"jit": jit})
    with graphmill.Session(graph=graph, config=config) as session:
        for _ in range(runs):
            results = session.run(fetches)
    return results


def const(value: Any, dtype: Any = np.float32) -> Any:
    array = np.asarray(value, dtype)
    return ops.array.const(value=array, dtype=dtypes.as_dtype(array.dtype))


def int32(value: int) -> Any:
    return const(value, np.int32)


def reduce(value: Any, **attrs: Any) -> Any:
    defaults: dict[str, Any] = {"group_size": 2, "group_key": 1, "instance_key": 1}
    defaults["merge_op"] = "Add"
    defaults |= {"final_op": "Id", "subdiv_offsets": [0]}
    return C.collective_reduce(value, **(defaults | attrs))


VALUES = ([1.0, 5.0, 3.0], [4.0, 2.0, 7.0])


@pytest.mark.parametrize(
    ("merge_op", "expected"),
    [("Add", [5, 7, 10]), ("Mul", [4, 10, 21]), ("Max", [4, 5, 7]), ("Min", [1, 2, 3])],
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float16", "float64", "int32", "int64"])
def test_reduce_merges_in_each_dtype(merge_op: str, expected: list[int], dtype: str) -> None:
    kind = dtypes.as_dtype(dtype).as_numpy_dtype
    results = run(lambda i: reduce(const(VALUES[i], kind), merge_op=merge_op))
    assert [result.dtype for result in results] == [kind, kind]
    assert [result.tolist() for result in results] == [expected, expected]


def test_reduce_divides_integers_towards_zero() -> None:
    values = ([1, -5, 7], [-4, 2, 0])
    results = run(lambda i: reduce(const(values[i], np.int32), final_op="Div"))
    assert [result.tolist() for result in results] == [[-1, -1, 3]] * 2


@pytest.mark.parametrize("jit", ["off", "tiered", "eager"])
def test_reduce_joins_in_each_tier_and_step(jit: str) -> None:
    def make(index: int) -> Any:
        doubled = ops.math.mul(const(VALUES[index]), const(2))
        return ops.math.add_v2(reduce(doubled, final_op="Div"), const(1))

    results = run(make, jit=jit, runs=40)
    assert [result.tolist() for result in results] == [[6, 8, 11]] * 2


def test_reduce_of_a_group_of_one_gives_its_input() -> None:
    (result,) = run(lambda _: reduce(const([1.0]), group_size=1), devices=1)
    assert result.tolist() == [1]


def test_reduce_is_deterministic_in_device_order() -> None:
    values = [np.float32(3.3) ** (index % 7) * 1e3 for index in range(12)]
    results = [run(lambda i: reduce(const([values[i]]), group_size=12), 12) for _ in range(3)]
    expected = np.float32(0)
    for value in values:
        expected = np.float32(expected + value)
    assert {float(value[0]) for result in results for value in result} == {float(expected)}


def test_two_groups_reduce_at_once() -> None:
    def make(index: int) -> Any:
        return reduce(const([float(index)]), group_key=1 + index % 2)

    assert [result.tolist() for result in run(make, devices=4)] == [[2], [4], [2], [4]]


def test_results_do_not_share_memory() -> None:
    first, second = run(lambda i: reduce(const(VALUES[i])))
    assert not np.shares_memory(first, second)


def keys() -> tuple[Any, Any, Any]:
    return int32(2), int32(1), int32(1)


def test_gather_joins_in_the_order_of_devices() -> None:
    def make(index: int) -> Any:
        value = const([[index, index + 10]], np.int32)
        defaults: dict[str, Any] = {
            "group_size": 2,
            "group_key": 1,
            "instance_key": 1,
            "shape": [2, 2],
        }
        return C.collective_gather(value, **defaults)

    assert [result.tolist() for result in run(make)] == [[[0, 10], [1, 11]]] * 2


def send_or_receive(index: int, shape: tuple[int, ...] = (2,)) -> Any:
    defaults: dict[str, Any] = {"group_size": 2, "group_key": 1, "instance_key": 1}
    if index == 0:
        return C.collective_bcast_send(const([1, 2]), shape=[2], **defaults)
    return C.collective_bcast_recv(T=dtypes.float32, shape=shape, **defaults)


def send_or_receive_v2(index: int, shape: tuple[int, ...] = (2,)) -> Any:
    if index == 0:
        return C.collective_bcast_send_v2(const([1, 2]), *keys())
    return C.collective_bcast_recv_v2(*keys(), const(shape, np.int32), T=dtypes.float32)


@pytest.mark.parametrize("make", [send_or_receive, send_or_receive_v2])
def test_broadcast_gives_the_tensor_to_all(make: Callable[..., Any]) -> None:
    assert [result.tolist() for result in run(make)] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("make", [send_or_receive, send_or_receive_v2])
def test_broadcast_refuses_another_shape(make: Callable[..., Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"has shape \[\d\], but .* has shape"):
        run(lambda index: make(index, (3,)))


def test_broadcast_refuses_two_senders() -> None:
    with pytest.raises(errors.InternalError, match=r"one member must send.*CPU:0.*CPU:1"):
        run(lambda _: C.collective_bcast_send_v2(const([1, 2]), *keys()))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda value: C.collective_reduce_v2(value, *keys(), [], merge_op="Add", final_op="Id"),
            [[[11], [13]]] * 2,
        ),
        (lambda value: C.collective_gather_v2(value, *keys(), []), [[[0], [1], [11], [12]]] * 2),
        (
            lambda value: C.collective_reduce_scatter_v2(
                value, *keys(), [], merge_op="Add", final_op="Id"
            ),
            [[[11]], [[13]]],
        ),
        (
            lambda value: C.collective_all_to_all_v2(value, *keys(), []),
            [[[0], [11]], [[1], [12]]],
        ),
    ],
    ids=["reduce", "gather", "reduce scatter", "all to all"],
)
def test_second_versions_take_their_group_from_inputs(
    make: Callable[[Any], Any], expected: list[Any]
) -> None:
    results = run(lambda index: make(const([[11 * index], [11 * index + 1]], np.int32)))
    assert [result.tolist() for result in results] == expected


def communicate(index: int, rank: int, value: Any, *, reduces: bool) -> Any:
    del index
    group = C.collective_initialize_communicator(int32(1), int32(rank), int32(2))
    whole = const(np.zeros((0, 0)), np.int32)
    if reduces:
        return C.collective_reduce_v3(value, group, whole, reduction="Add")
    return C.collective_all_to_all_v3(value, group, whole)


def test_communicators_carry_collectives() -> None:
    def value(index: int) -> Any:
        return const([[1 + 10 * index], [2 + 10 * index]])

    summed = run(lambda i: communicate(i, i, value(i), reduces=True))
    swapped = run(lambda i: communicate(i, i, value(i), reduces=False))
    assert [result.tolist() for result in summed] == [[[12], [14]]] * 2
    assert [result.tolist() for result in swapped] == [[[1], [11]], [[2], [12]]]


def test_communicators_refuse_equal_ranks() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"have ranks \[0, 0\]; expected each"):
        run(lambda i: communicate(i, 0, const([1]), reduces=True))


@pytest.mark.parametrize(
    ("groups", "index", "base", "expected"),
    [
        ([[0, 1], [2, 3]], 2, 1, [2, 2]),
        ([[0, 1], [2, 3]], 0, 1, [2, 1]),
        ([[0, 1, 2, 3]], 3, 7, [4, 7]),
        ([[3, 1], [2, 0]], 3, 5, [2, 5]),
    ],
)
def test_assign_group_returns_size_and_key(
    groups: list[list[int]], index: int, base: int, expected: list[int]
) -> None:
    (result,) = run(
        lambda _: C.collective_assign_group_v2(const(groups, np.int32), int32(index), int32(base)),
        devices=1,
    )
    assert list(result) == expected


@pytest.mark.parametrize(("index", "base", "why"), [(4, 1, "is not found"), (0, 0, "reserved")])
def test_assign_group_refuses(index: int, base: int, why: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=why):
        run(
            lambda _: C.collective_assign_group_v2(
                const([[0, 1]], np.int32), int32(index), int32(base)
            ),
            devices=1,
        )


def test_members_of_different_dtypes_fail() -> None:
    with pytest.raises(errors.InternalError, match=r"group 1, instance 1, on /job:.*CPU.*dtype"):
        run(lambda i: reduce(const([1], (np.float32, np.int32)[i])))


def test_members_of_different_shapes_fail() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"has shape .* members of an instance"):
        run(lambda i: reduce(const([1] * (i + 1))))


def test_members_of_different_group_sizes_fail() -> None:
    with pytest.raises(errors.InternalError, match=r"group size [23], but others"):
        run(lambda i: reduce(const([1]), group_size=2 + i))


def test_members_of_different_merges_fail() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="has merge_op"):
        run(lambda i: reduce(const([1]), merge_op=("Add", "Mul")[i]))


def test_missing_member_is_abandoned_after_the_timeout() -> None:
    with pytest.raises(
        errors.DeadlineExceededError, match=r"not all 2 members arrived within 0\.05"
    ):
        run(lambda _: reduce(const([1]), timeout_seconds=0.05), devices=1)


def test_member_failure_fails_the_group() -> None:
    def make(index: int) -> Any:
        value = const([np.nan if index else 1.0])
        return reduce(ops.array.check_numerics(value, message="bad") if index else value)

    with pytest.raises(errors.InvalidArgumentError, match="bad"):
        run(make)


def test_a_loop_reduces_in_each_round() -> None:
    def make(index: int) -> Any:
        def body(count: Any, total: Any) -> list[Any]:
            return [ops.math.add(count, int32(1)), reduce(ops.math.add(total, const([index])))]

        start = [int32(0), const([1])]
        return graphmill.while_loop(lambda count, _: ops.math.less(count, int32(3)), body, start)[1]

    # Each round adds up both totals, of which one has grown by one: 3, 7, 15.
    assert [result.tolist() for result in run(make)] == [[15], [15]]


class Recording(CollectiveExecutor):
    """Answers immediately with the member's value, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_async(self, request: Any, cancellation: Any, done: Any) -> None:
        del cancellation
        self.asked.append(str(request))
        done(request.value, None)


def test_device_supplies_its_own_collectives(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Recording()
    monkeypatch.setattr(Device, "collectives", own)
    (result,) = run(lambda _: reduce(const([4])), devices=1)
    assert result.tolist() == [4]
    assert [request.partition(",")[0] for request in own.asked] == ["Reduce of group 1"]


def test_a_step_that_runs_out_of_time_leaves_the_collective() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        waits = reduce(const([1]))
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.DeadlineExceededError):
        session.run(waits, options=proto.RunOptions(timeout_in_ms=50))
