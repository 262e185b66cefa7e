"""Small graphs cannot allocate more than the session's memory budget."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, memory_budget, ops

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = Callable[[Callable[..., Any]], Any]

BUDGET = 8 << 20
JIT = pytest.mark.parametrize("jit", ["off", "eager"])


def ints(value: Any) -> Any:
    return np.array(value, np.int32)


# Each builds one node "big" from tensors that `const` makes: the values decide on the size.
GREEDY: dict[str, Build] = {
    "Fill": lambda const: ops.array.fill(const(ints([3000, 3000])), const(np.float32(1))),
    "Tile": lambda const: ops.array.tile(const(np.ones(4, np.float32)), const(ints([10**6]))),
    "BroadcastTo": lambda const: ops.array.broadcast_to(
        const(np.float32(1)), const(ints([3000, 3000]))
    ),
    "OneHot": lambda const: ops.array.one_hot(
        const(ints([1, 2])), const(ints(10**7)), const(np.float32(1)), const(np.float32(0))
    ),
    "Pad": lambda const: ops.array.pad(const(np.ones(4, np.float32)), const(ints([[0, 10**7]]))),
    "Range": lambda const: ops.math.range(const(ints(0)), const(ints(10**7)), const(ints(1))),
    "LinSpace": lambda const: ops.math.lin_space(
        const(np.float32(0)), const(np.float32(1)), const(ints(10**7))
    ),
    "MatrixDiagV3": lambda const: ops.array.matrix_diag_v3(
        const(np.ones(3000, np.float32)),
        const(ints(0)),
        const(ints(3000)),
        const(ints(3000)),
        const(np.float32(0)),
    ),
    "RandomUniform": lambda const: ops.random.random_uniform(
        const(ints([3000, 3000])), dtype="float32"
    ),
    "Bincount": lambda const: ops.math.bincount(
        const(ints([1])), const(ints(10**7)), const(np.ones(1, np.float32))
    ),
    "AsString": lambda const: ops.string.as_string(const(np.float32(1)), width=10**7),
    "AsString precision": lambda const: ops.string.as_string(const(np.float32(1)), precision=10**7),
    "DecodeCompressed": lambda const: ops.parsing.decode_compressed(
        const(np.array(gzip.compress(bytes(10**7)), object)), compression_type="GZIP"
    ),
    "DecodeCompressed truncated": lambda const: ops.parsing.decode_compressed(
        const(np.array(gzip.compress(bytes(10**7))[:-9], object)), compression_type="GZIP"
    ),
    "TensorListReserve": lambda const: ops.tensor_list.tensor_list_reserve(
        const(ints([])), const(ints(10**7)), element_dtype="float32"
    ),
}


def run(build: Build, jit: str, *, fed: bool = False, budget: int = BUDGET) -> Any:
    graph, feeds = graphmill.Graph(), {}

    def const(value: Any) -> Any:
        if not fed:
            return graph.constant(value)
        made = graph.placeholder(graphmill.as_dtype(value.dtype), list(np.shape(value)))
        feeds[made] = value
        return made

    with graph.as_default():
        big = build(const)
    config = {"graphmill": {"jit": jit, "memory_budget_bytes": budget}}
    with graphmill.Session(graph=graph, config=config) as session:
        return session.run(big, feeds)


@JIT
@pytest.mark.parametrize("fed", [False, True], ids=["constants", "feeds"])
@pytest.mark.parametrize("build", GREEDY.values(), ids=GREEDY)
def test_node_asked_bytes_and_limit_are_named(build: Build, fed: bool, jit: str) -> None:
    if fed and jit == "eager":
        pytest.skip("sizes that are fed are not compiled")
    with pytest.raises(errors.ResourceExhaustedError, match=rf"the limit is {BUDGET}") as error:
        run(build, jit, fed=fed)
    assert error.value.node
    assert "bytes are asked for" in error.value.message


@JIT
def test_what_fits_runs(jit: str) -> None:
    result = run(GREEDY["Fill"], jit, budget=64 << 20)
    assert result.shape == (3000, 3000)


def test_default_is_a_share_of_the_memory() -> None:
    with pytest.raises(errors.ResourceExhaustedError, match=str(memory_budget.default_limit())):
        run(
            lambda const: ops.array.fill(const(ints([2**30, 2**10])), const(np.float32(1))),
            "off",
            budget=0,
        )


def test_animation_is_held_to_the_budget_as_a_whole() -> None:
    image = pytest.importorskip("PIL.Image")
    frames = [image.new("RGB", (600, 600), (shade, 0, 0)) for shade in range(10)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    contents = np.array(buffer.getvalue(), object)
    with pytest.raises(errors.ResourceExhaustedError, match="the animation"):
        run(lambda const: ops.image.decode_gif(const(contents)), "off")
    whole = run(lambda const: ops.image.decode_gif(const(contents)), "off", budget=64 << 20)
    assert whole.shape == (10, 600, 600, 3)


def test_negative_budget_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="memory_budget_bytes"):
        run(GREEDY["Fill"], "off", budget=-1)


def test_limit_of_one_call_ends_with_it() -> None:
    def greedy() -> None:
        memory_budget.request_memory(100, "it has 100 elements")

    with pytest.raises(errors.ResourceExhaustedError, match="the limit is 10 "):
        memory_budget.with_limit(10, greedy)()
    greedy()
    assert memory_budget.with_limit(10, lambda: memory_budget.with_limit(1000, greedy)())() is None
