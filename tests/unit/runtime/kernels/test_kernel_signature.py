"""Kernels whose parameters are neither inputs nor attrs are refused when they are registered."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.registry import PluginWarning
from graphmill.runtime.kernels.kernel import kernel, kernels_of
from graphmill.runtime.kernels.kernel_registry import KernelRegistry
from graphmill.runtime.kernels.kernel_signature import (
    check_signature,
    parameters_of,
    takes_namespace,
)


def checked(function: Any) -> None:
    ops = OpRegistry()
    (definition,) = kernels_of(function)
    check_signature(definition, [ops.get(name) for name in definition.ops])


def test_parameter_that_is_no_attr_is_refused_with_a_suggestion() -> None:
    @kernel("MatMul")
    def mm(xp: Any, a: Any, b: Any, transpose_x: bool = False) -> Any:
        return xp.matmul(a, b)

    with pytest.raises(InvalidArgumentError) as caught:
        KernelRegistry(OpRegistry().get).add(mm)
    message = caught.value.message
    assert (
        "parameter 'transpose_x', which is neither an input nor an attr of op 'MatMul'" in message
    )
    assert "did you mean 'transpose_" in message
    assert caught.value.op_type == "MatMul"


def test_kernel_with_too_few_inputs_is_refused() -> None:
    @kernel("MatMul")
    def mm(xp: Any, a: Any) -> Any:
        return a

    with pytest.raises(InvalidArgumentError, match="takes 1 inputs, op 'MatMul' has 2: a, b"):
        checked(mm)


def test_keyword_only_parameter_of_a_class_is_checked() -> None:
    @kernel("MatMul", stateful=True)
    class Mm:
        def __call__(self, ctx: Any, a: Any, b: Any, *, fast: bool = True) -> Any:
            return a

    with pytest.raises(InvalidArgumentError, match="parameter 'fast'"):
        checked(Mm)


def test_kernels_of_every_sound_form_pass() -> None:
    @kernel("MatMul")
    def named(xp: Any, x: Any, y: Any, transpose_b: bool, transpose_a: bool) -> Any:
        return x

    @kernel("MatMul")
    def any_keyword(xp: Any, *inputs: Any, **attrs: Any) -> Any:
        return inputs

    @kernel("MatMul", async_=True)
    def later(ctx: Any, a: Any, b: Any, *, done: Any) -> None:
        done(a)

    @kernel("MatMul", make=True)
    def made(xp: Any, transpose_a: bool) -> Any:
        return lambda a, b: a

    for function in (named, any_keyword, later, made):
        checked(function)


@pytest.mark.parametrize("options", [{"host": True}, {"backend": "jax"}])
def test_kernel_of_one_namespace_may_leave_it_out(options: dict[str, Any]) -> None:
    @kernel("MatMul", **options)
    def plain(a: Any, b: Any, transpose_a: bool) -> Any:
        return a

    @kernel("MatMul", make=True, **options)
    def made(transpose_a: bool) -> Any:
        return lambda a, b: a

    @kernel("MatMul", **options)
    def wrong(a: Any, b: Any, transpose_x: bool = False) -> Any:
        return a

    checked(plain)
    checked(made)
    with pytest.raises(InvalidArgumentError, match="parameter 'transpose_x'"):
        checked(wrong)


def test_renamed_namespace_parameter_warns() -> None:
    @kernel("MatMul", host=True)
    def mm(numpy: Any, x: Any, y: Any) -> Any:
        return x

    with pytest.warns(DeprecationWarning, match=r"mm takes the array namespace as 'numpy'"):
        checked(mm)
    (definition,) = kernels_of(mm)
    assert takes_namespace(definition, OpRegistry().get("MatMul"))


def test_parameter_named_like_a_python_keyword_takes_an_underscore() -> None:
    @kernel("MatMul")
    def mm(xp: Any, a: Any, b: Any, grad_a_: Any = None) -> Any:
        return a

    with pytest.raises(InvalidArgumentError, match="'grad_a_'"):
        checked(mm)


def test_plugin_with_invalid_kernel_is_disabled_with_reason() -> None:
    @kernel("MatMul")
    def mm(xp: Any, a: Any, b: Any, transpose_x: bool = False) -> Any:
        return a

    class Broken:
        @staticmethod
        @hookimpl
        def graphmill_register_kernels(kernels: Any) -> None:
            kernels.add(mm)

    with pytest.raises(Exception, match="transpose_x") as caught:
        Host(plugins=[Broken], load_entry_points=False)
    assert not isinstance(caught.value, PluginWarning)


def test_parameters_are_read_alike_with_and_without_code() -> None:
    def plain(xp: Any, a: Any, *rest: Any, flag: bool = False, **more: Any) -> None: ...

    class Called:
        def __call__(
            self, xp: Any, a: Any, *rest: Any, flag: bool = False, **more: Any
        ) -> None: ...

    assert parameters_of(plain) == parameters_of(Called())


def test_static_input_that_the_op_does_not_have_is_refused() -> None:
    @kernel("Reshape", static=["shap"])
    def reshape(xp: Any, tensor: Any, shape: Any) -> Any:
        return tensor

    with pytest.raises(
        InvalidArgumentError,
        match=r"static='shap', which is not an "
        r"input.*'shape'",
    ):
        checked(reshape)
