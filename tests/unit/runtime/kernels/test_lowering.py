"""Lowerings: declared with `@lowering`, found for kernels of the same supplier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill.errors import InternalError, InvalidArgumentError, OutOfRangeError
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.registry import PluginConflictError, Provenance
from graphmill.runtime.kernels.kernel import kernel, kernels_of
from graphmill.runtime.kernels.kernel_registry import KernelRegistry
from graphmill.runtime.kernels.lowering import (
    Check,
    Lowering,
    LoweringTable,
    as_checks,
    as_lowering,
    lowering,
    lowerings_of,
)
from graphmill.runtime.kernels.lowering_registry import LoweringRegistry

if TYPE_CHECKING:
    from pathlib import Path

MINE = Provenance("mine", "mine-dist")
OTHER = Provenance("other", "other-dist")


@lowering("Mine>Push", static=["size"])
def push(trace: Any, handle: Any, size: Any) -> None: ...


def test_lowering_is_found_for_kernels_of_the_same_distribution_only() -> None:
    registry = LoweringRegistry()
    registry.add(push, owner=MINE)
    found = registry.find("Mine>Push", Provenance("another plugin of it", "mine-dist"))
    assert found is lowerings_of(push)[0]
    assert found.static == ("size",)
    assert registry.find("Mine>Push", OTHER) is None


def test_two_of_equal_priority_conflict_and_a_higher_one_wins() -> None:
    registry = LoweringRegistry()
    first, second = Lowering(("Mine>Op",), push), Lowering(("Mine>Op",), push)
    registry.add(LoweringTable([first, second]), owner=MINE)
    with pytest.raises(PluginConflictError, match="equal priority"):
        registry.find("Mine>Op", MINE)
    best = Lowering(("Mine>Op",), push, priority=1)
    registry.add(best, owner=MINE)
    assert registry.find("Mine>Op", MINE) is best


def test_declarations_of_one_supplier_for_one_op_count_together() -> None:
    registry = LoweringRegistry()
    check = Check(lambda xp, x: xp.all(x >= 0))
    registry.add(Lowering(("Mine>Push",), checks=(check,), standalone=True), owner=MINE)
    registry.add(push, owner=MINE)
    found = registry.find("Mine>Push", MINE)
    assert found is not None
    assert (found.function, found.checks, found.standalone) == (push, (check,), True)
    assert found.static == ("size",)


def test_withdrawn_lowerings_are_gone() -> None:
    registry = LoweringRegistry()
    registry.add(push, owner=MINE)
    registry.withdraw(MINE)
    assert registry.find("Mine>Push", MINE) is None
    assert registry.ops() == []


def test_module_that_cannot_be_imported_names_op_and_owner() -> None:
    registry = LoweringRegistry()
    registry.add_module("no_such_module_of_mine", ["Mine>Op"], owner=MINE)
    with pytest.raises(InternalError, match=r"'Mine>Op'.*plugin 'mine'"):
        registry.find("Mine>Op", MINE)


def test_object_without_lowering_declaration_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="declares no lowering"):
        LoweringRegistry().add(lambda trace: None)
    with pytest.raises(InvalidArgumentError, match="needs the names"):
        lowering()


def test_kernel_carries_its_checks_and_lowering() -> None:
    check = Check(lambda xp, x: xp.all(x >= 0), OutOfRangeError)

    @kernel("Mine>Sqrt", check=check, lowering=push)
    def root(xp: Any, x: Any) -> Any:
        return xp.sqrt(x)

    (definition,) = kernels_of(root)
    assert definition.checks == (check,)
    assert definition.lowering is not None
    assert definition.lowering.ops == ("Mine>Sqrt",)
    assert definition.lowering.function is push


def test_checks_are_predicates_or_checks() -> None:
    predicate = lambda xp, x: True  # noqa: E731
    assert as_checks(predicate)[0].predicate is predicate
    with pytest.raises(InvalidArgumentError, match="takes a Check"):
        as_checks(["x >= 0"])  # type: ignore[list-item]
    with pytest.raises(InvalidArgumentError, match="takes a Lowering or a function"):
        as_lowering(3, ("Op",))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stateful": True, "async_": True}, "async_"),
        ({"stateful": True, "host": True}, "host"),
        ({}, "without stateful=True"),
    ],
)
def test_traces_variables_that_contradicts_the_rest_is_refused(
    options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        kernel("Mine>Op", traces_variables=True, **options)(lambda ctx: None)


def test_asynchronous_kernel_may_wait_unless_declared_otherwise() -> None:
    waits = [
        kernels_of(kernel("Mine>Op", **options)(lambda ctx: None))[0].may_wait
        for options in (
            {"async_": True},
            {"async_": True, "waits": False},
            {"stateful": True},
            {"stateful": True, "waits": True},
        )
    ]
    assert waits == [True, False, False, True]


def test_lowering_of_a_kernel_function_is_registered_with_the_kernel() -> None:
    @lowering("Mine>Push", check=lambda xp, handle, size: xp.all(size > 0))
    @kernel("Mine>Push", stateful=True, traces_variables=True)
    def push_both(ctx: Any, handle: Any, size: Any) -> None: ...

    lowerings = LoweringRegistry()
    kernels = KernelRegistry(lowerings=lowerings)
    kernels.add(push_both, owner=MINE)
    assert lowerings.find("Mine>Push", MINE) is lowerings_of(push_both)[0]
    lowerings.add(push_both, owner=MINE)  # a plugin may register it as well
    assert lowerings.find("Mine>Push", MINE) is lowerings_of(push_both)[0]


def test_lowering_in_a_module_of_kernels_is_registered_when_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_pushes.py").write_text(
        "from graphmill.spi import kernel, lowering\n\n"
        "@lowering('Neg')\n@kernel('Neg', stateful=True)\n"
        "def negated(ctx, x):\n    return -x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    lowerings, ops = LoweringRegistry(), OpRegistry()
    kernels = KernelRegistry(ops.find, lowerings)
    kernels.add_module("lazy_pushes", ["Neg"], owner=MINE)
    assert lowerings.find("Neg", MINE) is None
    assert kernels.registrations(ops.get("Neg"))
    found = lowerings.find("Neg", MINE)
    assert found is not None
    assert found.source == "lazy_pushes.negated"


def form(trace: Any, x: Any) -> Any:
    return x


def other_form(trace: Any, x: Any) -> Any:
    return x


def never(node: Any) -> str:
    return "never"


@pytest.mark.parametrize("registered", [0, -1], ids=["equal", "lower"])
def test_kernel_form_wins_unless_registered_priority_is_higher(registered: int) -> None:
    lowerings = LoweringRegistry()
    lowerings.add(Lowering(("Neg",), other_form, priority=registered), owner=MINE)
    found = lowerings.find("Neg", MINE, Lowering(("Neg",), form))
    assert found is not None
    assert found.function is form
    assert lowerings.find("Neg", MINE).function is other_form  # for a kernel without a form


def test_registered_form_of_a_higher_priority_wins_over_the_kernels() -> None:
    lowerings = LoweringRegistry()
    lowerings.add(Lowering(("Neg",), other_form, priority=1), owner=MINE)
    found = lowerings.find("Neg", MINE, Lowering(("Neg",), form, standalone=True))
    assert found == Lowering(("Neg",), other_form, priority=1)


def test_declaration_without_form_combines_with_registered_form() -> None:
    lowerings = LoweringRegistry()
    lowerings.add(Lowering(("Neg",), other_form, static=("x",), refuse=never), owner=MINE)
    own = Lowering(("Neg",), standalone=True, refuse=lambda node: None)
    found = lowerings.find("Neg", MINE, own)
    assert found is not None
    assert (found.function, found.static, found.standalone) == (other_form, ("x",), True)
    assert found.refuse is own.refuse


def test_kernel_form_counts_alone_beside_lowerings_of_other_suppliers() -> None:
    lowerings = LoweringRegistry()
    lowerings.add(Lowering(("Neg",), other_form, priority=9), owner="another")
    own = Lowering(("Neg",), form)
    assert lowerings.find("Neg", MINE, own) is own


def test_kernel_function_with_two_forms_is_refused_naming_both() -> None:
    @lowering("Neg")
    @kernel("Neg", stateful=True, lowering=form)
    def negated(ctx: Any, x: Any) -> Any:
        return x

    with pytest.raises(
        InvalidArgumentError, match=r"negated .*'Neg'.*two lowerings.*form.*negated"
    ):
        KernelRegistry(OpRegistry().find).add(negated)


def test_kernel_function_with_two_forms_of_different_priority_is_taken() -> None:
    @lowering("Neg", priority=1)
    @kernel("Neg", stateful=True, lowering=form)
    def negated(ctx: Any, x: Any) -> Any:
        return x

    lowerings, ops = LoweringRegistry(), OpRegistry()
    kernels = KernelRegistry(ops.find, lowerings)
    kernels.add(negated, owner=MINE)
    (registered,) = kernels.registrations(ops.get("Neg"))
    found = lowerings.find("Neg", MINE, registered.definition.lowering)
    assert found is not None
    assert found.function is negated


MISFITS: dict[str, dict[str, Any]] = {
    "the check .*takes 1 inputs, op 'Less' has 2: x, y. A check takes the array namespace, ": {
        "check": lambda xp, few: few
    },
    "the lowering .* takes 1 inputs, op 'Less' has 2: x, y. A lowering takes a TraceContext, ": {
        "lowering": lambda trace, few: few
    },
    "the lowering .* has a parameter 'extra', which is neither an input nor an attr": {
        "lowering": lambda trace, x, y, extra=1: x
    },
}


@pytest.mark.parametrize("message", MISFITS)
def test_mismatched_checks_and_lowerings_are_refused(message: str) -> None:
    @kernel("Less", **MISFITS[message])
    def less(xp: Any, x: Any, y: Any) -> Any:
        return x < y

    with pytest.raises(InvalidArgumentError, match=message):
        KernelRegistry(OpRegistry().find).add(less)
