"""Values read from a variable do not change later (clause S10, E11)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.runtime.resources.variables import Ref, ResourceHandle, Variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernels.op_kernel import OpKernel

    Bind = Callable[..., OpKernel]


def resource(value: Any) -> ResourceHandle:
    variable = Variable(dtypes.as_dtype(value.dtype), value.shape, "v")
    variable.value = value
    return ResourceHandle("/device:CPU:0", "localhost", "v", "Variable", variable)


def reference(value: Any) -> Ref:
    ref = Ref(dtypes.as_dtype(value.dtype), value.shape, "v")
    ref.value = value
    return ref


def ref_kernel(bind_kernel: Bind, op: str, value: Any, **attrs: Any) -> Any:
    return bind_kernel(op, value, value, **attrs).compute


def test_reader_keeps_its_value(bind_kernel: Bind, ctx: Any) -> None:
    start = np.array([1.0, 2.0], np.float32)
    ref = reference(start)
    read = ref.read()
    ref_kernel(bind_kernel, "AssignAdd", start)(ctx, ref, np.ones(2, np.float32))
    assert read.tolist() == [1, 2]
    assert ref.read().tolist() == [2, 3]


def test_a_fed_array_does_not_become_the_variable(bind_kernel: Bind, ctx: Any) -> None:
    """A variable does not follow later changes of the array that was fed and assigned to it."""
    fed = np.array([1.0, 2.0], np.float32)
    ref = Ref(dtypes.float32, (2,), "v")
    ref_kernel(bind_kernel, "Assign", fed)(ctx, ref, fed.view())
    fed[:] = 0
    assert ref.read().tolist() == [1, 2]


def test_array_of_a_kernel_is_stored_without_a_copy(bind_kernel: Bind, ctx: Any) -> None:
    made = np.array([1.0, 2.0], np.float32)
    ref = Ref(dtypes.float32, (2,), "v")
    ref_kernel(bind_kernel, "Assign", made)(ctx, ref, made)
    assert ref.read() is made


@pytest.mark.parametrize("op", ["AssignAdd", "AssignSub", "ScatterAdd"])
def test_an_update_needs_a_value(bind_kernel: Bind, ctx: Any, op: str) -> None:
    ref = Ref(dtypes.float32, (2,), "weights")
    value = np.zeros(2, np.float32)
    inputs = [np.zeros(2, np.int32), value] if op == "ScatterAdd" else [value]
    compute = bind_kernel(op, value, *inputs).compute
    with pytest.raises(errors.FailedPreconditionError, match="uninitialized value weights"):
        compute(ctx, ref, *inputs)


def test_additions_of_many_threads_all_count(bind_kernel: Bind, ctx: Any) -> None:
    ref = reference(np.zeros(3))
    add = ref_kernel(bind_kernel, "AssignAdd", np.zeros(3))

    def work() -> None:
        for _ in range(300):
            add(ctx, ref, np.ones(3))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ref.read().tolist() == [1200] * 3


def variable_kernel(bind_kernel: Bind, **attrs: Any) -> Any:
    return bind_kernel("VariableV2", dtype="float32", shape=[2], **attrs).compute


def test_nodes_share_a_variable_by_name_and_container(bind_kernel: Bind, ctx: Any) -> None:
    one = variable_kernel(bind_kernel, shared_name="s")(ctx)
    assert variable_kernel(bind_kernel, shared_name="s")(ctx) is one
    assert variable_kernel(bind_kernel, shared_name="t")(ctx) is not one
    other = variable_kernel(bind_kernel, shared_name="s", container="c")(ctx)
    assert other is not one
    ctx.resources.clear_container("c")
    assert variable_kernel(bind_kernel, shared_name="s", container="c")(ctx) is not other


def test_a_shared_name_may_not_begin_with_an_underscore(bind_kernel: Bind) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="cannot start with '_'"):
        variable_kernel(bind_kernel, shared_name="_x")


def test_one_name_with_two_types_is_refused(bind_kernel: Bind, ctx: Any) -> None:
    variable_kernel(bind_kernel, shared_name="s")(ctx)
    other = bind_kernel("VariableV2", dtype="int32", shape=[2], shared_name="s").compute
    with pytest.raises(errors.InternalError, match="int32_ref"):
        other(ctx)


def test_a_destroyed_resource_is_gone_for_every_handle(bind_kernel: Bind, ctx: Any) -> None:
    make, other = (
        bind_kernel("VarHandleOp", dtype="float32", shape=[2], shared_name="v").compute
        for _ in range(2)
    )
    before, after = make(ctx), other(ctx)
    before.resource.value = np.zeros(2, np.float32)
    bind_kernel("DestroyResourceOp", before).compute(ctx, before)
    with pytest.raises(errors.FailedPreconditionError, match="resource variable v"):
        bind_kernel("ReadVariableOp", after, dtype="float32").compute(ctx, after)
    assert make(ctx).resource is not after.resource
    assert other(ctx).resource is make(ctx).resource


def test_a_handle_is_kept_until_a_resource_is_removed(bind_kernel: Bind, ctx: Any) -> None:
    make = bind_kernel("VarHandleOp", dtype="float32", shape=[2], shared_name="v").compute
    handle = make(ctx)
    assert make(ctx) is handle
    ctx.resources.clear_container("")
    assert make(ctx).resource is not handle.resource


def test_a_handle_is_of_the_device_of_its_step(bind_kernel: Bind, ctx: Any) -> None:
    make = bind_kernel("VarHandleOp", dtype="float32", shape=[2], shared_name="v").compute
    other = type(ctx)()
    assert make(ctx).resource is not make(other).resource
    assert make(other) is make(other)


def test_an_anonymous_variable_is_new_for_each_call(bind_kernel: Bind, ctx: Any) -> None:
    name = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
    make = bind_kernel("VarHandleOp", dtype="float32", shape=[2], shared_name=name).compute
    assert make(ctx).resource is not make(ctx).resource


def test_a_read_of_another_type_is_refused(bind_kernel: Bind, ctx: Any) -> None:
    handle = resource(np.zeros(2, np.float32))
    with pytest.raises(errors.InvalidArgumentError, match="Expected float32 got int32"):
        bind_kernel("ReadVariableOp", handle, dtype="int32").compute(ctx, handle)


def test_a_temporary_variable_lives_in_the_step(bind_kernel: Bind, ctx: Any) -> None:
    make = bind_kernel("TemporaryVariable", dtype="float32", shape=[2], var_name="t").compute
    ref = make(ctx)
    assert ctx.resources.names("step_1") == [("Ref", "t")]
    destroy = bind_kernel("DestroyTemporaryVariable", np.zeros(2, np.float32), var_name="t").compute
    assert destroy(ctx, ref).tolist() == [0, 0]
    assert ctx.resources.names("step_1") == []


def test_counting_stops_at_the_limit(bind_kernel: Bind, ctx: Any) -> None:
    ref = reference(np.array(1, np.int32))
    count = bind_kernel("CountUpTo", np.array(1, np.int32), limit=3).compute
    assert [int(count(ctx, ref)), int(count(ctx, ref))] == [1, 2]
    with pytest.raises(errors.OutOfRangeError, match="limit of 3"):
        count(ctx, ref)


# ------------------------------------------------------------------------------------ scatters


def test_repeated_rows_add_up(bind_kernel: Bind, ctx: Any) -> None:
    start = np.zeros((3, 2), np.float32)
    start.flags.writeable = False
    ref = reference(start)
    rows, updates = np.array([0, 2, 0]), np.ones((3, 2), np.float32)
    bind_kernel("ScatterAdd", start, rows, updates).compute(ctx, ref, rows, updates)
    assert ref.read().tolist() == [[2, 2], [0, 0], [1, 1]]
    assert start.tolist() == [[0, 0]] * 3


def test_the_last_of_repeated_updates_stays(bind_kernel: Bind, ctx: Any) -> None:
    handle = resource(np.zeros(3, np.int32))
    rows, updates = np.array([1, 1]), np.array([5, 7], np.int32)
    bind_kernel("ResourceScatterUpdate", handle, rows, updates).compute(ctx, handle, rows, updates)
    assert handle.resource.value.tolist() == [0, 7, 0]


def test_integers_are_divided_towards_nought(bind_kernel: Bind, ctx: Any) -> None:
    start = np.array([-7, 7, 9], np.int32)
    ref = reference(start)
    rows, updates = np.array([0, 1, 2, 2]), np.array([2, -2, 2, 2], np.int32)
    bind_kernel("ScatterDiv", start, rows, updates).compute(ctx, ref, rows, updates)
    assert ref.read().tolist() == [-3, -3, 2]


def test_a_row_out_of_range_changes_nothing(bind_kernel: Bind, ctx: Any) -> None:
    start = np.zeros(3, np.float32)
    ref = reference(start)
    rows, updates = np.array([0, 5]), np.ones(2, np.float32)
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[1\] = 5 is not in \[0, 3\)"):
        bind_kernel("ScatterAdd", start, rows, updates).compute(ctx, ref, rows, updates)
    assert ref.read() is start


def test_points_out_of_range_can_be_passed_over(bind_kernel: Bind, ctx: Any) -> None:
    start = np.zeros((2, 2), np.float32)
    ref = reference(start)
    points, updates = np.array([[0, 1], [5, 0]]), np.ones(2, np.float32)
    compute = bind_kernel(
        "ScatterNdAdd", start, points, updates, bad_indices_policy="IGNORE"
    ).compute
    compute(ctx, ref, points, updates)
    assert ref.read().tolist() == [[0, 1], [0, 0]]


def test_gather_reads_rows_within_batches(bind_kernel: Bind, ctx: Any) -> None:
    handle = resource(np.arange(12.0).reshape(2, 3, 2))
    rows = np.array([[2, 0], [1, 1]])
    got = bind_kernel("ResourceGather", handle, rows, dtype="float64", batch_dims=1).compute(
        ctx, handle, rows
    )
    np.testing.assert_array_equal(got, [[[4, 5], [0, 1]], [[8, 9], [8, 9]]])


def test_update_of_a_variable_that_is_destroyed_meanwhile_fails(
    bind_kernel: Bind, ctx: Any
) -> None:
    """The value may be removed after the lookup and before the kernel has the lock."""
    one = np.ones(2, np.float32)
    handle = resource(one)
    variable = handle.resource

    class Destroying:
        """A lock that another thread held, which destroyed the variable."""

        def __enter__(self) -> None:
            variable.value = None

        def __exit__(self, *_: object) -> None:
            pass

    variable.lock = Destroying()
    kernel = bind_kernel("AssignAddVariableOp", handle, one)
    with pytest.raises(errors.NotFoundError, match="v has no value"):
        kernel.compute(ctx, handle, one)
