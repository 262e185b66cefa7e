"""The registry selects a kernel and gives the reasons (clause E11)."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from graphmill import dtypes, errors
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.registry import CORE, PluginConflictError, PluginWarning, Provenance
from graphmill.runtime.kernels.kernel import KernelDef, KernelTable, kernel, kernels_of
from graphmill.runtime.kernels.kernel_registry import KernelRegistry

if TYPE_CHECKING:
    from pathlib import Path

NEG = OpDef("Neg", (ArgDef("x", type_attr="T"),), (), (AttrDef("T", "type"),), family="arithmetic")
FLOAT = {"T": dtypes.float32}
REASONS = {"Neg": "it needs a hammer"}
MINE, YOURS = (Provenance(name, f"dist-{name}", "1", name) for name in ("mine", "yours"))


def definition(name: str, *ops: str, **fields: Any) -> KernelDef:
    def function(xp: Any, x: Any) -> Any:
        return x

    function.__qualname__ = name
    return KernelDef(ops or ("Neg",), function, **fields)


@pytest.fixture
def registry() -> KernelRegistry:
    return KernelRegistry()


def found(registry: KernelRegistry, attrs: Any = FLOAT, device: str = "CPU", *backends: str) -> str:
    choice = registry.find(NEG, attrs, device, backends or ("numpy",))
    return choice.definition.function.__qualname__


def test_e11_only_kernel_is_found_with_its_provenance(registry: KernelRegistry) -> None:
    registry.add(definition("a"), MINE)
    choice = registry.find(NEG, FLOAT, "CPU", ("numpy",))
    assert (choice.owner, choice.backend, choice.rejected) == (MINE, "numpy", ())


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        ({"priority": 1}, {"backend": "numpy", "device": ("CPU",)}),
        ({"backend": "numpy"}, {"device": ("CPU",)}),
        ({"backend": "numpy"}, {}),
        ({"device": ("CPU",)}, {}),
    ],
)
def test_e11_priority_decides_before_backend_and_device_type(
    registry: KernelRegistry, winner: Any, loser: Any
) -> None:
    registry.add(definition("loser", **loser))
    registry.add(definition("winner", **winner))
    choice = registry.find(NEG, FLOAT, "CPU", ("numpy",))
    assert choice.definition.function.__qualname__ == "winner"
    ((source, reason),) = choice.rejected
    assert source.endswith("loser")
    assert reason == "ranks lower"


def test_e11_first_matching_backend_of_device_is_chosen(
    registry: KernelRegistry,
) -> None:
    registry.add(definition("general"))
    registry.add(definition("jax", backend="jax"))
    assert found(registry, FLOAT, "GPU", "jax", "numpy") == "jax"
    assert found(registry, FLOAT, "CPU", "numpy") == "general"
    assert registry.find(NEG, FLOAT, "GPU", ("jax", "numpy")).backend == "jax"


@pytest.mark.parametrize(
    ("fields", "attrs", "reason"),
    [
        ({"device": ("NPU", "GPU")}, FLOAT, "is for device types NPU, GPU"),
        ({"backend": "jax"}, FLOAT, "is for backend jax, the device runs numpy"),
        ({"label": "fast"}, FLOAT, "has label 'fast', the node asks for ''"),
        ({}, {**FLOAT, "_kernel": b"fast"}, "has label '', the node asks for 'fast'"),
        ({}, {**FLOAT, "_kernel": 3}, "has label '', the node asks for 3"),
        ({"types": {"T": (dtypes.int8,)}}, FLOAT, "takes T in int8, not float32"),
        ({"types": {"T": (dtypes.int8,)}}, {"T": (dtypes.int8, dtypes.int16)}, "not int16"),
    ],
)
def test_e11_errors_say_why_no_kernel_fits(
    registry: KernelRegistry, fields: Any, attrs: Any, reason: str
) -> None:
    registry.add(definition("a", **fields), MINE)
    with pytest.raises(errors.NotFoundError) as caught:
        registry.find(NEG, attrs, "CPU", ("numpy",))
    assert f"a of {MINE}: " in caught.value.message
    assert reason in caught.value.message
    assert "no kernel for op 'Neg' on device type 'CPU'" in caught.value.message
    assert registry.try_find(NEG, attrs, "CPU", ("numpy",)) is None


def test_e11_an_op_without_any_kernel_is_not_found(registry: KernelRegistry) -> None:
    with pytest.raises(errors.NotFoundError, match=r"\(T=float32\)\. None is registered"):
        found(registry)


def test_e11_the_error_names_a_list_of_ops_as_a_possible_cause(registry: KernelRegistry) -> None:
    registry.add_module(__name__, ["Abs"], owner=MINE)  # "Neg" is missing
    with pytest.raises(errors.NotFoundError, match="only if the module's list of ops names this"):
        found(registry)


def test_reason_for_unsupported_op_is_part_of_the_error(registry: KernelRegistry) -> None:
    registry.add_unsupported({"Neg": "it needs a hammer"}, MINE)
    with pytest.raises(errors.NotFoundError, match="because it needs a hammer; a plugin") as caught:
        found(registry)
    assert "list of ops" not in caught.value.message


def test_kernel_of_unsupported_op_is_used(registry: KernelRegistry) -> None:
    registry.add_unsupported({"Neg": "it needs a hammer"}, MINE)
    registry.add(definition("a"), YOURS)
    assert found(registry) == "a"


def test_reasons_are_withdrawn_with_their_owner(registry: KernelRegistry) -> None:
    registry.add_unsupported({"Neg": "it needs a hammer"}, MINE)
    registry.add_unsupported({"Abs": "it needs a saw"}, YOURS)
    registry.withdraw(MINE)
    assert registry.unsupported() == {"Abs": "it needs a saw"}


def test_reasons_are_imported_by_name(registry: KernelRegistry) -> None:
    registry.add_unsupported(f"{__name__}:REASONS", MINE)
    assert registry.unsupported() == REASONS


def test_reasons_that_cannot_be_imported_do_not_hide_the_error(registry: KernelRegistry) -> None:
    registry.add_unsupported("no_such_module:REASONS", MINE)
    with (
        pytest.warns(PluginWarning, match="no_such_module"),
        pytest.raises(errors.NotFoundError, match=r"None is registered; a plugin"),
    ):
        found(registry)


def test_e11_label_requests_its_kernel(registry: KernelRegistry) -> None:
    registry.add(definition("plain"))
    registry.add(definition("fast", label="fast"))
    assert found(registry) == "plain"
    assert found(registry, {**FLOAT, "_kernel": b"fast"}) == "fast"


def test_e11_a_type_that_is_not_constrained_may_be_any(registry: KernelRegistry) -> None:
    registry.add(definition("a", types={"U": (dtypes.int8,)}))
    assert found(registry) == "a"


def test_e11_equal_priority_kernels_conflict_and_both_are_named(
    registry: KernelRegistry,
) -> None:
    registry.add(definition("a"), MINE)
    registry.add(definition("b"), YOURS)
    with pytest.raises(PluginConflictError, match="fit equally") as caught:
        found(registry)
    assert caught.value.owners == (MINE, YOURS)


def test_e11_the_same_definition_counts_once(registry: KernelRegistry) -> None:
    same = definition("a")
    registry.add(same, MINE)
    registry.add(same, MINE)
    assert found(registry) == "a"


def test_e11_a_function_or_table_is_registered_for_all_its_ops(registry: KernelRegistry) -> None:
    @kernel("Neg", "Abs")
    def function(xp: Any, x: Any) -> Any:
        return x

    registry.add(function)
    registry.add(KernelTable([definition("s", "Sign")]))
    assert registry.ops() == ["Abs", "Neg", "Sign"]


def test_e11_object_without_kernel_declaration_is_refused(registry: KernelRegistry) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="declares no kernel; decorate"):
        registry.add(len)


def test_e11_registrations_of_an_owner_can_be_removed(registry: KernelRegistry) -> None:
    registry.add(definition("a"), MINE)
    registry.add(definition("b"), YOURS)
    registry.add_module("no.such.module", ["Neg"], YOURS)
    registry.add_family("arithmetic", "no.such.module", owner=YOURS)
    registry.withdraw(YOURS)
    assert found(registry) == "a"
    registry.withdraw(MINE)
    assert registry.ops() == []


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a kernel that counts its inspections."""
    made = types.ModuleType("made_kernels")
    made.table = KernelTable([definition("lazy")])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_kernels", made)
    return "made_kernels"


def test_e11_a_module_is_imported_when_one_of_its_ops_is_needed(
    registry: KernelRegistry, module: str
) -> None:
    registry.add_module(module, ["Neg"], MINE)
    assert not registry._loaded
    assert found(registry) == "lazy"
    assert registry.find(NEG, FLOAT, "CPU", ("numpy",)).owner == MINE


def test_e11_the_modules_of_a_family_are_imported_for_any_of_its_ops(
    registry: KernelRegistry, module: str
) -> None:
    registry.add_family("arithmetic", module, owner=MINE)
    assert found(registry) == "lazy"


def test_e11_module_of_another_backend_is_not_imported(
    registry: KernelRegistry, module: str
) -> None:
    registry.add_family("arithmetic", module, backend="jax")
    with pytest.raises(errors.NotFoundError):
        found(registry)
    assert found(registry, FLOAT, "GPU", "jax") == "lazy"
    assert registry.ops() == ["Neg"]


@pytest.mark.parametrize(
    ("text", "words"),
    [("import no_such_thing", "No module named 'no_such_thing'"), ("1 / 0", "ZeroDivisionError")],
)
def test_e11_failed_kernel_import_is_reported_each_time(
    registry: KernelRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    (tmp_path / "broken_kernels.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.add_module("broken_kernels", ["Neg"], MINE)
    with pytest.warns(PluginWarning, match=words):
        registry.registrations(NEG)
    for _ in range(2):  # without another warning
        with pytest.raises(errors.NotFoundError, match="'broken_kernels' for 'Neg' cannot be") as e:
            found(registry)
        assert words in e.value.message
        assert "registered by plugin 'mine'" in e.value.message
    registry.add(definition("other"))
    assert found(registry) == "other"


def test_e11_a_built_in_module_that_cannot_be_imported_is_an_error(
    registry: KernelRegistry,
) -> None:
    registry.add_module("no_such_thing", ["Neg"], CORE)
    for _ in range(2):
        with pytest.raises(errors.InternalError, match="'no_such_thing' for 'Neg' cannot be"):
            found(registry)


@pytest.fixture
def misfit_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a kernel of `Neg` with an extra parameter, and a valid one of `Abs`."""

    @kernel("Neg")
    def misfit(xp: Any, x: Any, speed: int = 0) -> Any:
        return -x

    @kernel("Abs")
    def fits(xp: Any, x: Any) -> Any:
        return xp.abs(x)

    made = types.ModuleType("misfit_kernels")
    made.table = KernelTable([*kernels_of(misfit), *kernels_of(fits)])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "misfit_kernels", made)
    return "misfit_kernels"


def test_mismatched_kernel_of_a_module_is_skipped(misfit_module: str) -> None:
    ops = OpRegistry()
    registry = KernelRegistry(ops.get)
    registry.add_module(misfit_module, ["Neg", "Abs"], MINE)
    assert len(registry.registrations(ops.get("Abs"))) == 1
    with pytest.warns(PluginWarning, match="'speed', which is neither .* It is left out"):
        assert registry.registrations(ops.get("Neg")) == []
    for _ in range(2):  # without another warning
        with pytest.raises(errors.NotFoundError, match="parameter 'speed'"):
            registry.find(ops.get("Neg"), FLOAT, "CPU", ("numpy",))
    assert registry.ops() == ["Abs"]


def test_mismatched_kernel_of_required_plugin_is_an_error(
    misfit_module: str,
) -> None:
    ops = OpRegistry()
    registry = KernelRegistry(ops.get)
    registry.add_module(misfit_module, ["Neg", "Abs"], CORE)
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError, match="parameter 'speed'"):
            registry.find(ops.get("Neg"), FLOAT, "CPU", ("numpy",))
    with pytest.raises(errors.InvalidArgumentError, match="parameter 'speed'"):
        registry.ops()


def test_module_reads_only_the_definitions_of_ops_that_are_looked_up(misfit_module: str) -> None:
    ops, read = OpRegistry(), []
    registry = KernelRegistry(lambda name: read.append(name) or ops.find(name))  # type: ignore[func-returns-value]
    registry.add_module(misfit_module, ["Neg", "Abs"], MINE)
    registry.registrations(ops.get("Abs"))
    assert read == ["Abs"]


def test_e11_late_kernel_is_found_for_earlier_lookups(
    registry: KernelRegistry,
) -> None:
    registry.add(definition("a"), MINE)
    assert [found(registry) for _ in range(3)] == ["a"] * 3
    registry.add(definition("b", priority=1), YOURS)
    assert found(registry) == "b"
    registry.withdraw(YOURS)
    assert found(registry) == "a"


def test_e11_equal_nodes_share_the_kernel_choice(
    registry: KernelRegistry,
) -> None:
    registry.add(definition("floats", types={"T": (dtypes.float32,)}), MINE)
    registry.add(definition("ints", types={"T": (dtypes.int32,)}), MINE)
    first, again = (registry.find(NEG, FLOAT, "CPU", ("numpy",)) for _ in range(2))
    assert first is again
    assert found(registry, {"T": dtypes.int32}) == "ints"
