"""Registries: names, lazy references, priorities, error messages."""

from __future__ import annotations

import itertools
import sys
import threading
from functools import partial
from typing import Any

import pytest

from graphmill import errors
from graphmill.registry import (
    CORE,
    PluginConflictError,
    PluginError,
    Provenance,
    Registry,
    function_source,
    instance_of,
)

NPU = Provenance("npu", "graphmill-npu", "0.3", "graphmill_npu")
TPU = Provenance("tpu", "graphmill-tpu", "1.1", "graphmill_tpu")


class Base:
    pass


class Derived(Base):
    pass


def registry(**options: Any) -> Registry[Any]:
    return Registry("device", hook="graphmill_register_devices", **options)


def test_get_returns_what_was_added() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU)
    assert devices.get("NPU") is Base
    assert devices.find("NPU") is Base
    assert "NPU" in devices
    assert len(devices) == 1


def test_find_returns_none_for_an_unknown_name() -> None:
    assert registry().find("NPU") is None


def test_keys_and_items_are_sorted() -> None:
    devices = registry()
    for key in ("b", "a", "c"):
        devices.add(key, key.upper if key == "x" else Base, owner=NPU)
    assert devices.keys() == ("a", "b", "c")
    assert devices.items() == (("a", Base), ("b", Base), ("c", Base))


def test_the_empty_string_is_a_name() -> None:
    devices = registry()
    devices.add("", Base, owner=NPU)
    assert devices.get("") is Base


def test_a_reference_is_imported_on_first_use_only() -> None:
    sys.modules.pop("this", None)
    devices = registry()
    devices.add("TEXT", "this:s", owner=NPU)
    assert "this" not in sys.modules
    assert devices.get("TEXT").startswith("Gur Mra")
    assert devices.reference("TEXT") == "this:s"
    del sys.modules["this"]


def test_a_reference_may_reach_into_a_class() -> None:
    devices = registry()
    devices.add("join", "os:path.join", owner=NPU)
    import os

    assert devices.get("join") is os.path.join


@pytest.mark.parametrize("reference", ["no_colon", "a.b:", ":C", "a b:C", "a:b:c", "", "a..b:C"])
def test_a_malformed_reference_is_refused_at_once(reference: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="malformed") as caught:
        registry().add("NPU", reference, owner=NPU)
    assert caught.value.plugin == "npu"


def test_a_name_must_be_a_string() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="plugin 'npu'"):
        registry().add(3, Base, owner=NPU)  # type: ignore[arg-type]


@pytest.mark.parametrize("reference", ["there_is_no_such_module:X", "os:no_such_attribute"])
def test_a_reference_that_leads_nowhere_names_plugin_and_distribution(reference: str) -> None:
    devices = registry()
    devices.add("NPU", reference, owner=NPU)
    with pytest.raises(PluginError) as caught:
        devices.get("NPU")
    message = str(caught.value)
    for part in ("device 'NPU'", reference, "plugin 'npu'", "graphmill-npu 0.3", "no"):
        assert part in message
    assert caught.value.plugin == "npu"
    assert caught.value.__cause__ is not None


def test_instance_of_makes_an_instance_of_a_class_once() -> None:
    devices = registry(prepare=instance_of(Base))
    devices.add("NPU", Derived, owner=NPU)
    assert isinstance(devices.get("NPU"), Derived)
    assert devices.get("NPU") is devices.get("NPU")


def test_instance_of_takes_instances() -> None:
    devices, made = registry(prepare=instance_of(Base)), Derived()
    devices.add("NPU", made, owner=NPU)
    assert devices.get("NPU") is made


def test_wrong_object_kind_names_its_plugin() -> None:
    devices = registry(prepare=instance_of(Base))
    devices.add("NPU", 42, owner=NPU)
    with pytest.raises(PluginError, match=r"42 is not a Base") as caught:
        devices.get("NPU")
    assert "graphmill-npu 0.3" in str(caught.value)


def test_two_plugins_with_one_name_conflict_and_both_are_named() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU)
    with pytest.raises(PluginConflictError) as caught:
        devices.add("NPU", Derived, owner=TPU)
    message = str(caught.value)
    for part in ("'NPU'", "plugin 'npu' (graphmill-npu 0.3)", "plugin 'tpu' (graphmill-tpu 1.1)"):
        assert part in message
    assert "replace=True" in message
    assert "GRAPHMILL_DISABLE_PLUGINS" in message
    assert caught.value.owners == (NPU, TPU)
    assert isinstance(caught.value, errors.AlreadyExistsError)


def test_duplicate_registration_of_one_plugin_is_reported() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU)
    with pytest.raises(PluginConflictError, match="registered twice by plugin 'npu'"):
        devices.add("NPU", Derived, owner=NPU)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_winner_does_not_depend_on_the_order(order: tuple[int, ...]) -> None:
    adds: list[tuple[str, dict[str, Any]]] = [
        ("low", {"owner": NPU}),
        ("high", {"owner": TPU, "priority": 7}),
        ("replacing", {"owner": CORE, "replace": True}),
    ]
    devices = registry()
    for index in order:
        value, options = adds[index]
        devices.add("NPU", value.upper, **options)
    assert devices.get("NPU")() == "REPLACING"
    assert devices.suppliers("NPU") == (CORE, TPU, NPU)
    assert devices.provenance("NPU") == CORE


def test_higher_priority_wins_and_is_logged() -> None:
    devices = registry()
    devices.add("NPU", Derived, owner=TPU, priority=10)
    devices.add("NPU", Base, owner=NPU, priority=1)
    assert devices.get("NPU") is Derived
    assert devices.priority("NPU") == 10
    assert devices.provenance("NPU") == TPU


def test_two_replacements_of_one_name_conflict() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU, replace=True)
    with pytest.raises(PluginConflictError):
        devices.add("NPU", Derived, owner=TPU, replace=True)


def test_removal_restores_the_outranked_entry() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU)
    devices.add("NPU", Derived, owner=TPU, replace=True)
    devices.add("ONLY", Derived, owner=TPU)
    devices.withdraw(TPU)
    assert devices.get("NPU") is Base
    assert devices.keys() == ("NPU",)


def test_not_found_lists_candidates_near_matches_failures_and_the_hook() -> None:
    devices = registry(failures=lambda: ["plugin 'bad' (bad-dist 1.0): ImportError: libnpu"])
    devices.add("NPU", Base, owner=NPU)
    devices.add("CPU", Base, owner=CORE)
    with pytest.raises(errors.NotFoundError) as caught:
        devices.get("npuu")
    assert str(caught.value) == (
        "no device 'npuu' is registered; did you mean 'NPU'? Registered: 'CPU', 'NPU'. "
        "Plugins that failed to load: plugin 'bad' (bad-dist 1.0): ImportError: libnpu. "
        "A plugin registers one in graphmill_register_devices."
    )


@pytest.mark.parametrize("method", ["provenance", "priority", "reference"])
def test_questions_about_an_unknown_name_are_not_found_errors(method: str) -> None:
    with pytest.raises(errors.NotFoundError):
        getattr(registry(), method)("NPU")


def test_reference_of_an_object_names_where_it_is_defined() -> None:
    devices = registry()
    devices.add("NPU", Base, owner=NPU)
    devices.add("MADE", Derived(), owner=NPU)
    assert devices.reference("NPU").endswith(":Base")
    assert devices.reference("MADE").endswith(":Derived")


def test_all_threads_get_the_same_object() -> None:
    barrier = threading.Barrier(4)

    class Slow(Base):
        def __init__(self) -> None:
            barrier.wait(timeout=30)  # all four threads are inside before any of them is done

    devices = registry(prepare=instance_of(Base))
    devices.add("NPU", Slow, owner=NPU)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(devices.get("NPU"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4
    assert len(set(map(id, got))) == 1


def test_provenance_without_distribution_names_the_module() -> None:
    assert str(Provenance("mine", module="my_plugin")) == "plugin 'mine' (module my_plugin)"


def test_only_our_own_distribution_is_built_in() -> None:
    assert CORE.is_builtin
    assert not NPU.is_builtin
    assert not Provenance("mine").is_builtin


def test_repr_lists_names() -> None:
    devices = registry()
    assert repr(devices) == "<Registry of devices: empty>"
    devices.add("NPU", Base, owner=NPU)
    assert repr(devices) == "<Registry of devices: NPU>"


def test_one_can_be_preferred_without_changing_the_others() -> None:
    registry: Registry[Any] = Registry("device")
    registry.add("CPU", object(), owner=NPU, priority=70)
    registry.add("NPU", "sys:path", owner=TPU)
    other = registry.preferring("NPU")
    assert (other.priority("NPU"), other.priority("CPU")) == (71, 70)
    assert other.get("NPU") is sys.path
    assert other.provenance("NPU") == TPU
    assert other.reference("NPU") == "sys:path"
    assert registry.priority("NPU") == 0


def test_missing_type_cannot_be_preferred() -> None:
    registry: Registry[Any] = Registry("device")
    with pytest.raises(errors.NotFoundError, match="no device 'NPU'"):
        registry.preferring("NPU")


def test_functions_in_functions_are_named_without_python_s_marks() -> None:
    def inner() -> None: ...

    outer = test_functions_in_functions_are_named_without_python_s_marks
    assert function_source(inner) == f"{__name__}.{outer.__name__}.inner"
    assert function_source(function_source) == "graphmill.registry.function_source"


def test_callables_without_a_name_are_shown() -> None:
    assert function_source(partial(int, base=2)).startswith("functools.functools.partial(<class")
