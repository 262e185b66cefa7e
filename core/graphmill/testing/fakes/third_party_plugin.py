"""A plugin with ops and kernels that a test defines, like a third party's.

kernel_of_mine = scales("Neg", 3.0, priority=10)
host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[kernel_of_mine])])
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.deprecations import renamed_name
from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_traits import OpTraits, ResourceUse
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.kernels.lowering import Check
from graphmill.runtime.resources.variables import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class ThirdPartyPlugin:
    """A plugin with ops and kernels of a test.

    Args:
        ops: the op definitions.
        kernels: the functions decorated with `@kernel`.
    """

    def __init__(self, ops: Iterable[OpDef] = (), kernels: Iterable[Any] = ()) -> None:
        self._ops = tuple(ops)
        self._kernels = tuple(kernels)

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        """Register the ops."""
        for op in self._ops:
            ops.add(op)

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        """Register the kernels."""
        for one in self._kernels:
            kernels.add(one)


def float_op(name: str, inputs: str = "x", outputs: str = "y", **fields: Any) -> OpDef:
    """Return an op over float32; names of inputs and outputs are separated by spaces."""
    return OpDef(name, _float_args(inputs), _float_args(outputs), **fields)


def _float_args(names: str) -> tuple[ArgDef, ...]:
    return tuple(ArgDef(name, dtypes.float32) for name in names.split())


def scales(op: str, factor: float, **declared: Any) -> Any:
    """Return a kernel that returns `factor` times its first input.

    Args:
        op: an op whose first input and only output have the same type.
        factor: small enough that products are exact.
        declared: other arguments of `@kernel`.
    """

    @kernel(op, **declared)
    def scaled(xp: Any, x: Any, *_: Any) -> Any:
        return xp.multiply(x, factor)

    return scaled


class Mailbox:
    """A pair of ops like those of a queue: `Foreign>Put`, and `Foreign>Take`, which waits for it.

    Attributes:
        plugin: the plugin with both ops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: list[Any] = []
        self._waiters: list[Callable[[Any], None]] = []
        ops = (
            float_op("Foreign>Put", is_stateful=True),
            float_op("Foreign>Take", inputs="", is_stateful=True),
        )

        @kernel("Foreign>Put", stateful=True, effects=["state"])
        def put(ctx: Any, x: Any) -> Any:
            del ctx
            return self._put(x)

        @kernel("Foreign>Take", async_=True, effects=["state"])
        def take(ctx: Any, *, done: Callable[..., None]) -> None:
            del ctx
            self._take(done)

        self.plugin = ThirdPartyPlugin(ops, (put, take))

    def _put(self, x: Any) -> Any:
        with self._lock:
            waiter = self._waiters.pop(0) if self._waiters else None
            if waiter is None:
                self._values.append(x)
        if waiter is not None:
            waiter(x)
        return x

    def _take(self, done: Callable[..., None]) -> None:
        with self._lock:
            if not self._values:
                self._waiters.append(done)
                return
            value = self._values.pop(0)
        done(value)


class Counting:
    """An op `Foreign>Act` that adds one and counts its executions.

    Args:
        effect: the declared effect.
        declared_by: "op" or "kernel".

    Attributes:
        calls: the number of executions.
        plugin: the plugin with the op.
    """

    def __init__(self, effect: str, declared_by: str) -> None:
        self.calls = 0
        traits = OpTraits(effects=frozenset({effect})) if declared_by == "op" else OpTraits()
        effects = [effect] if declared_by == "kernel" else []

        @kernel("Foreign>Act", effects=effects)
        def act(xp: Any, x: Any) -> Any:
            self.calls += 1
            return xp.add(x, 1.0)

        self.plugin = ThirdPartyPlugin([float_op("Foreign>Act", traits=traits)], [act])


def optimizer() -> ThirdPartyPlugin:
    """Return a plugin with the optimizer `Foreign>ApplySign`, which compilers may trace."""
    traits = OpTraits(
        effects=frozenset({"state"}),
        resources=(ResourceUse("var", reads=True, writes=True),),
    )
    args = (ArgDef("var", dtypes.resource), ArgDef("grad", dtypes.float32))

    @kernel("Foreign>ApplySign", stateful=True, effects=["state"], traces_variables=True)
    def apply_sign(ctx: Any, var: Any, grad: Any) -> None:
        variable = var.expect(Variable)
        with variable.lock:
            step = ctx.xp.multiply(ctx.xp.sign(grad), 0.25)
            variable.value = ctx.xp.subtract(variable.value, step)

    op = OpDef("Foreign>ApplySign", args, (), is_stateful=True, traits=traits)
    return ThirdPartyPlugin([op], [apply_sign])


@kernel("Foreign>Draw", backend="jax", stateful=True, effects=["state", "rng"], variable="last")
@kernel("Foreign>Draw", backend="numpy", stateful=True, effects=["state", "rng"], variable="last")
class _Draw:
    """A linear congruential generator; it returns the upper bits of its state."""

    def __init__(self, construction: Any) -> None:
        self.last = Variable(dtypes.uint32, (), construction.node_name)
        self.last.value = np.uint32(1)

    def __call__(self, ctx: Any, x: Any) -> Any:
        xp = ctx.xp
        with self.last.lock, np.errstate(over="ignore"):
            self.last.value = self.last.value * np.uint32(1664525) + np.uint32(1013904223)
            drawn = self.last.value >> np.uint32(16)
        return xp.add(x, xp.asarray(drawn, np.float32))


def generator() -> ThirdPartyPlugin:
    """Return a plugin with the random op `Foreign>Draw`, whose state is a variable."""
    traits = OpTraits(effects=frozenset({"state", "rng"}))
    return ThirdPartyPlugin([float_op("Foreign>Draw", is_stateful=True, traits=traits)], [_Draw])


def square_root() -> ThirdPartyPlugin:
    """Return a plugin with `Foreign>Root`, which rejects negative numbers, and its lowering."""

    def lowered(trace: Any, x: Any) -> Any:
        return trace.xp.sqrt(x)

    check = Check(lambda xp, x: xp.all(x >= 0), InvalidArgumentError)

    @kernel("Foreign>Root", backend="numpy", check=check, lowering=lowered)
    def root(x: Any) -> Any:
        if np.any(np.less(x, 0)):
            raise InvalidArgumentError("no root of a negative number")
        return np.sqrt(x)

    return ThirdPartyPlugin([float_op("Foreign>Root")], [root])


def faulty(give: Callable[[Any], Any]) -> ThirdPartyPlugin:
    """Return a plugin with `Foreign>Faulty`; its kernel returns `give(x)` if `x` is 2, else `x`."""

    @kernel("Foreign>Faulty", host=True)
    def compute(x: Any) -> Any:
        return give(x) if np.all(np.equal(x, 2)) else x

    return ThirdPartyPlugin([float_op("Foreign>Faulty")], [compute])


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
