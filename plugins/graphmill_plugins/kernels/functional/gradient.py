"""SymbolicGradient: compute a function's gradient by its registered gradient or by JAX.

Semantics: `SymbolicGradientOp` in tensorflow/core/kernels/function_ops.cc. If the graph's library
has a gradient for the function, the op calls it. Otherwise the body is traced with its JAX kernels
and differentiated in reverse mode.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill.spi.passes import bind_node, effects_of
from graphmill_plugins._jax import jax_module, own_options
from graphmill_plugins.kernels.functional._body_evaluator import evaluator
from graphmill_plugins.kernels.functional._results import check_results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import FuncAttr, Node, OpKernelContext, Value
    from graphmill.spi.compilers import FunctionLibraryRuntime


_CALLS_BEFORE_COMPILATION = 3


@kernel("SymbolicGradient", async_=True, waits=False)
def symbolic_gradient(
    ctx: OpKernelContext,
    inputs: list[Value],
    f: FuncAttr,
    Tout: Sequence[np.dtype[Any]],
    done: Callable[..., None],
) -> None:
    """Return the gradients of `f`'s inputs, given its inputs and its outputs' gradients."""
    runtime = ctx.functions
    gradient = runtime.library.gradients.get(f.name)
    if gradient is not None:
        handle = ctx.state.get("gradient")
        if handle is None:
            handle = ctx.state["gradient"] = runtime.instantiate(gradient, f.attrs)
        runtime.run_async(handle, inputs, ctx, done)
        return
    differentiated = ctx.state.get("differentiated")
    if differentiated is None:
        differentiated = ctx.state["differentiated"] = _Differentiated(f, runtime)
    gradients = differentiated(inputs)
    check_results(f"the gradient of {f.name}", gradients, Tout)
    done(gradients)


class _Differentiated:
    """The gradient of one body: traced for each call, compiled if its constants repeat.

    Inputs that have no gradient (shapes, indices) are constants of a trace, because kernels may
    need their values. If they stay the same for several calls, the trace is compiled and cached.

    Threads: calls may overlap; then one of two traces is wasted.
    """

    def __init__(self, function: FuncAttr, runtime: FunctionLibraryRuntime) -> None:
        body = runtime.body(function.name, function.attrs)
        self._body = body
        self._evaluate = evaluator(body, partial(_computation, runtime=runtime))
        self._smooth = [i for i, dtype in enumerate(body.arg_types) if _is_smooth(dtype)]
        self._constants: list[Value] = []
        self._num_equal_calls = 0
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, inputs: Sequence[Value]) -> list[Value]:
        """Return the gradients of the arguments, and zeros for arguments without one."""
        jax = jax_module()
        args, gradients = self._split([_as_jax_input(value, jax) for value in inputs])
        options = own_options()
        with options():
            results = self._pulled(args)([args[index] for index in self._smooth], gradients)
            by_input = dict(zip(self._smooth, map(_conjugate, results), strict=True))
        return [
            np.asarray(by_input[index]) if index in by_input else np.zeros_like(arg)
            for index, arg in enumerate(args)
        ]

    def traced(self, *inputs: Any) -> list[Any]:
        """Return the gradients inside an outer trace, such as that of a higher-order gradient."""
        args, gradients = self._split(inputs)
        results = self._pull(args)([args[index] for index in self._smooth], gradients)
        by_input = dict(zip(self._smooth, map(_conjugate, results), strict=True))
        zeros_like = jax_module().numpy.zeros_like
        return [by_input[i] if i in by_input else zeros_like(arg) for i, arg in enumerate(args)]

    def _split(self, inputs: Sequence[Any]) -> tuple[Sequence[Any], list[Any]]:
        """Split the inputs into arguments and output gradients, the latter in JAX's convention.

        JAX multiplies by the derivative, TensorFlow by its conjugate.
        """
        body = self._body
        count = len(body.arg_types)
        if len(inputs) != count + len(body.ret_types):
            raise InvalidArgumentError(
                f"SymbolicGradient of '{body.name}' takes its {count} inputs and the gradients of "
                f"its {len(body.ret_types)} outputs, {len(inputs)} given"
            )
        gradients = [
            _conjugate(gradient)
            for gradient, dtype in zip(inputs[count:], body.ret_types, strict=True)
            if _is_smooth(dtype)
        ]
        return inputs[:count], gradients

    def _pulled(self, args: Sequence[Value]) -> Callable[..., Any]:
        """Return a function from differentiable arguments and output gradients to gradients."""
        constants = [arg for i, arg in enumerate(args) if i not in self._smooth]
        compiled = self._compiled
        if len(constants) == len(self._constants) and all(
            map(_is_same, constants, self._constants)
        ):
            self._num_equal_calls += 1
            if compiled is not None:
                return compiled
            if self._num_equal_calls > _CALLS_BEFORE_COMPILATION:
                function: Callable[..., Any] = jax_module().jit(self._pull(args))
                self._compiled = function
                return function
        else:
            self._constants, self._num_equal_calls, self._compiled = constants, 0, None
        return self._pull(args)

    def _pull(self, args: Sequence[Value]) -> Callable[..., Any]:
        jax = jax_module()
        evaluate, smooth, ret_types = self._evaluate, self._smooth, self._body.ret_types
        rest = [None if index in smooth else arg for index, arg in enumerate(args)]

        def of_smooth(*values: Any) -> list[Any]:
            full = list(rest)
            for index, value in zip(smooth, values, strict=True):
                full[index] = value
            results = zip(evaluate(full), ret_types, strict=True)
            return [result for result, dtype in results if _is_smooth(dtype)]

        def pull(values: list[Any], gradients: list[Any]) -> Any:
            return jax.vjp(of_smooth, *values)[1](gradients)

        return pull


def _as_jax_input(value: Value, jax: Any) -> Value:
    """Return a value that JAX accepts: a value of another device becomes a NumPy array."""
    if isinstance(value, (np.ndarray, np.generic, jax.Array)) or not hasattr(value, "__array__"):
        return value
    return np.asarray(value)


def _is_same(one: Value, other: Value) -> bool:
    return one is other or (
        one.shape == other.shape and one.dtype == other.dtype and bool((one == other).all())
    )


def _conjugate(value: Any) -> Any:
    return value.conj() if np.iscomplexobj(value) else value


def _is_smooth(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_complex)


def _computation(node: Node, runtime: FunctionLibraryRuntime) -> Callable[..., Any]:
    if node.op == "SymbolicGradient":
        return _Differentiated(node.attrs["f"], runtime).traced
    return _jax_kernel(node, runtime)


def _jax_kernel(node: Node, runtime: FunctionLibraryRuntime) -> Callable[..., Any]:
    choice = runtime.host.kernels.find(node.op_def, node.attrs, "XLA_CPU", ("jax",))
    effects = effects_of(node.op_def) | choice.definition.effects
    if effects or not choice.definition.is_traceable:
        runtime.effects.check_node(node, choice.definition, None)  # report forbidden effects first
        has = f"has effects ({', '.join(sorted(effects))})" if effects else "cannot be traced"
        raise UnimplementedError(
            f"the gradient of a function through op {node.op} (node '{node.name}') needs a "
            f"gradient function in the graph's library: the op {has}",
            node=node.name,
            op_type=node.op,
        )
    return bind_node(node, choice, runtime.effects, jax_module().numpy).compute
