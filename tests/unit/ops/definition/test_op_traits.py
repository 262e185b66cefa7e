"""`OpTraits` are declared with an op and checked, for built-in and plugin ops alike."""

from __future__ import annotations

import dataclasses

import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.ops.definition.define import op
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import OP_ATTRIBUTE, OpRegistry, bundled_ops
from graphmill.ops.definition.op_traits import (
    DEFAULT_TRAITS,
    Arithmetic,
    CallKind,
    ControlFlow,
    FunctionCall,
    OpTraits,
    ResourceUse,
    Source,
    check_traits,
)
from graphmill.ops.definition.tensorflow_traits import declared_fields

TOUCH = OpDef("Mine>Touch", (ArgDef("var", dtypes.resource), ArgDef("x", dtypes.float32)))


@pytest.mark.parametrize("name", sorted(declared_fields()))
def test_traits_of_tensorflow_ops_fit_their_definitions(name: str) -> None:
    op_def = bundled_ops().get(name)
    assert op_def is not None
    check_traits(op_def)


def test_traits_declared_with_an_op_are_in_its_definition() -> None:
    traits = OpTraits(frozenset({"state"}), resources=(ResourceUse("var", writes=True),))
    added = OpRegistry().add(TOUCH, traits=traits)
    assert added.traits is traits
    assert added.traits.writes


def test_effects_of_a_decorated_function_are_those_of_its_op() -> None:
    @op("Mine>Now", effects=["clock"])
    def now(xp, x: dtypes.float32) -> dtypes.float32:  # type: ignore[valid-type]
        return x

    assert effects_of(getattr(now, OP_ATTRIBUTE)) == {"clock"}


def test_effects_given_twice_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="effects, or traits with effects"):
        op("Mine>Now", effects=["clock"], traits=OpTraits(frozenset({"rng"})))


def test_unknown_effect_is_refused_with_a_suggestion() -> None:
    message = "of op 'Mine>Touch' .* unknown effect 'clok'; did you mean 'clock'"
    with pytest.raises(InvalidArgumentError, match=message):
        OpRegistry().add(TOUCH, traits=OpTraits(frozenset({"clok"})))


def test_unknown_effect_of_a_decorated_function_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"of op 'Mine>Now' .* unknown effect 'clok'"):

        @op("Mine>Now", effects=["clok"])
        def now(xp, x: dtypes.float32) -> dtypes.float32:  # type: ignore[valid-type]
            return x


@pytest.mark.parametrize(
    ("op_def", "traits", "message"),
    [
        (
            TOUCH,
            OpTraits(resources=(ResourceUse("vra"),)),
            "the unknown input 'vra'; it has var, x",
        ),
        (TOUCH, OpTraits(resources=(ResourceUse("var", rows="ids"),)), "the unknown input 'ids'"),
        (TOUCH, OpTraits(resources=(ResourceUse("var", stores="y"),)), "the unknown input 'y'"),
        (
            TOUCH,
            OpTraits(calls=(FunctionCall("f", CallKind.ONCE),)),
            "'f', which is not a function attr",
        ),
        (OpDef("Mine>Two", (), (ArgDef("y", dtypes.float32),)), OpTraits(forwards=True), "forward"),
        (TOUCH, OpTraits(source=Source.CONSTANT), "a constant cannot have inputs"),
        (TOUCH, OpTraits(validates=True), "validates needs an input and exactly one output"),
        (TOUCH, OpTraits(arithmetic=Arithmetic.ADD), "the role 'add' needs 1 outputs, not 0"),
        (TOUCH, OpTraits(int32_attrs=("k",)), "int32_attrs name 'k', which is not an int attr"),
    ],
)
def test_traits_that_do_not_fit_the_definition_are_refused(
    op_def: OpDef, traits: OpTraits, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        OpRegistry().add(op_def, traits=traits)


def test_two_plugins_that_declare_other_traits_conflict() -> None:
    registry = OpRegistry()
    registry.add(TOUCH, owner="one")
    with pytest.raises(Exception, match="is already defined differently"):
        registry.add(TOUCH, owner="two", traits=OpTraits(frozenset({"net"})))


def test_tensorflow_op_added_again_keeps_its_traits() -> None:
    registry = OpRegistry()
    registry.add(dataclasses.replace(registry.get("Identity"), traits=DEFAULT_TRAITS))
    assert registry.get("Identity").traits.forwards


def test_loops_and_conditionals_are_recognized_by_their_calls() -> None:
    ops = OpRegistry()
    assert ops.get("While").traits.is_loop
    assert ops.get("Case").traits.is_conditional
    assert ops.get("Switch").traits.control_flow is ControlFlow.SWITCH
    assert not ops.get("ControlTrigger").traits.is_control_flow
    assert ops.get("MatrixInverse").traits == DEFAULT_TRAITS


def test_op_with_an_undeclared_function_attr_has_no_calls() -> None:
    added = OpRegistry().add(OpDef("Mine>Each", attrs=(AttrDef("f", "func"),)))
    assert added.traits.calls == ()
    assert FuncAttr("g", {})  # what such an attr holds


CONDITION = FunctionCall("cond", CallKind.LOOP_CONDITION)
BODY = FunctionCall("body", CallKind.LOOP_BODY)


@pytest.mark.parametrize(
    ("calls", "is_while"),
    [
        ((CONDITION, BODY), True),
        ((BODY, CONDITION), True),
        ((BODY,), False),
        ((CONDITION, BODY._replace(counted=True)), False),
        ((CONDITION, BODY, FunctionCall("hook", CallKind.ONCE)), False),
    ],
)
def test_while_calls_only_condition_and_body(
    calls: tuple[FunctionCall, ...], is_while: bool
) -> None:
    attrs = tuple(AttrDef(call.attr, "func") for call in calls)
    assert OpDef("Mine>Loop", attrs=attrs, traits=OpTraits(calls=calls)).is_while == is_while


def test_a_while_with_an_undeclared_function_is_none() -> None:
    attrs = tuple(AttrDef(name, "func") for name in ("cond", "body", "callback"))
    assert not OpDef("Mine>Loop", attrs=attrs, traits=OpTraits(calls=(CONDITION, BODY))).is_while
