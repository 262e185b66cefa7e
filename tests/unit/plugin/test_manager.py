"""Faults of plugins are isolated, recorded, and warned about once."""

from __future__ import annotations

import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill.plugin import manager as manager_module
from graphmill.plugin.manager import PluginManager, PluginWarning
from graphmill.registry import PluginError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from graphmill.plugin.records import PluginRecord

    UseDists = Callable[..., None]


def load(*expected_warnings: str) -> PluginManager:
    """Load the installed plugins; expect exactly these warnings."""
    manager = PluginManager()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        manager.load_installed()
    messages = sorted(str(w.message) for w in caught if w.category is PluginWarning)
    assert len(messages) == len(expected_warnings), messages
    for message, expected in zip(messages, sorted(expected_warnings), strict=True):
        assert expected in message
    return manager


def record(manager: PluginManager, name: str) -> PluginRecord:
    (found,) = (r for r in manager.records if r.name == name)
    return found


def module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(members)
    return made


@graphmill.hookimpl
def graphmill_register_ops(ops: Any) -> None:
    pass


def test_a_broken_import_is_warned_about_and_recorded(use_dists: UseDists) -> None:
    use_dists("broken_import")
    manager = load("plugin 'broken' (graphmill-broken-import 0.3) is not used: importing it raised")
    failed = record(manager, "broken")
    assert failed.status == "failed"
    assert "ModuleNotFoundError: No module named 'there_is_no_such_module'" in failed.error
    assert isinstance(failed.exception, ModuleNotFoundError)


def test_failures_are_one_line_each_for_later_messages(use_dists: UseDists) -> None:
    use_dists("broken_import", "wrong_signature")
    manager = load("broken-import", "wrong-signature")
    notes = [note for note in manager.failures() if "plugin '" in note]
    assert len(notes) == 2
    assert all("\n" not in note for note in notes)
    assert notes[0].startswith("plugin 'broken' (graphmill-broken-import 0.3): importing it raised")


def test_a_wrong_signature_shows_plugin_hook_and_both_signatures(use_dists: UseDists) -> None:
    use_dists("wrong_signature")
    manager = load("graphmill_register_ops(registry)")
    failed = record(manager, "wrong_signature")
    for part in ("wrong_signature", "{'registry'}", "expected: graphmill_register_ops(ops)"):
        assert part in failed.error
    assert type(failed.exception).__name__ == "PluginValidationError"
    assert failed not in [r for r, _ in manager.implementations("graphmill_register_ops")]


def test_a_misspelt_hook_is_found_with_a_suggestion(use_dists: UseDists) -> None:
    use_dists("misspelt")
    manager = load("there is no hook 'graphmill_regsiter_ops'; did you mean")
    assert "did you mean 'graphmill_register_ops'" in record(manager, "misspelt").error


def test_duplicate_plugin_names_are_refused_and_both_named(
    use_dists: UseDists,
) -> None:
    use_dists("twin_a", "twin_b")
    manager = load("plugin 'twin' (graphmill-twin-a 1.0)", "plugin 'twin' (graphmill-twin-b 2.0)")
    twins = [r for r in manager.records if r.name == "twin"]
    assert [r.status for r in twins] == ["conflict", "conflict"]
    for twin in twins:
        assert "graphmill-twin-a 1.0 (fake_twin_a)" in twin.error
        assert "graphmill-twin-b 2.0 (fake_twin_b)" in twin.error
    assert "fake_twin_a" not in sys.modules


def test_duplicate_plugins_are_reported_in_either_path_order(use_dists: UseDists) -> None:
    use_dists("twin_a", "twin_b")
    first = load("twin-a", "twin-b")
    use_dists("twin_a")  # now further up than twin_b
    second = load("twin-a", "twin-b")
    assert [r.error for r in first.records] == [r.error for r in second.records]


def test_disabling_one_distribution_leaves_the_other_twin(
    use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_dists("twin_a", "twin_b")
    monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "graphmill-twin-b")
    manager = load()
    statuses = {r.distribution: r.status for r in manager.records if r.name == "twin"}
    assert statuses == {"graphmill-twin-a": "loaded", "graphmill-twin-b": "disabled"}


def test_a_disabled_plugin_is_listed_but_not_imported(
    use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_dists("broken_import", "twin_a")
    monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "broken, twin")
    manager = load()
    assert record(manager, "broken").status == "disabled"
    assert record(manager, "twin").status == "disabled"
    assert "fake_twin_a" not in sys.modules
    assert not any("broken" in note for note in manager.failures())


def test_a_plugin_for_another_version_of_graphmill_is_not_imported(use_dists: UseDists) -> None:
    use_dists("version_mismatch", "own_version")
    manager = load("it needs graphmill >=0.0.1,<0.0.2, this is 0.1.0")
    assert record(manager, "left_behind").status == "failed"
    assert "fake_version_mismatch" not in sys.modules


def test_two_names_for_one_module_conflict(tmp_path: Path, use_dists: UseDists) -> None:
    info = tmp_path / "two_names-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: two-names\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[graphmill.plugins]\na = one_mod\nb = one_mod\n")
    (tmp_path / "one_mod.py").write_text(
        "import graphmill\n@graphmill.hookimpl\ndef graphmill_configure(host): pass\n"
    )
    use_dists(tmp_path)
    manager = load("one_mod is already registered by plugin 'a' (two-names 1)")
    assert record(manager, "a").status == "loaded"
    assert record(manager, "b").status == "conflict"


def test_plugin_calling_exit_on_import_is_contained(
    monkeypatch: pytest.MonkeyPatch, use_dists: UseDists, tmp_path: Path
) -> None:
    (tmp_path / "fake_exits.py").write_text("raise SystemExit(3)\n")
    use_dists(tmp_path)
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", "fake_exits")
    manager = PluginManager()
    with pytest.warns(PluginWarning, match="SystemExit: 3"):
        manager.load_from_environment()


def test_modules_of_the_environment_are_plugins(
    monkeypatch: pytest.MonkeyPatch, use_dists: UseDists
) -> None:
    use_dists("twin_a")
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", "fake_twin_a")
    manager = PluginManager()
    manager.load_from_environment()
    loaded = record(manager, "fake_twin_a")
    assert (loaded.status, loaded.source, loaded.distribution) == ("loaded", "environment", "")
    assert str(loaded.owner) == "plugin 'fake_twin_a' (module fake_twin_a)"


def test_already_loaded_environment_module_is_ignored(
    monkeypatch: pytest.MonkeyPatch, use_dists: UseDists
) -> None:
    use_dists("twin_a")
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", "fake_twin_a")
    manager = load()
    manager.load_from_environment()
    assert [r.name for r in manager.records if r.module == "fake_twin_a"] == ["twin"]


def test_explicit_plugin_may_be_module_instance_or_class() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_configure(self, host: Any) -> None:
            pass

    class Static:
        @staticmethod
        @graphmill.hookimpl
        def graphmill_configure(host: Any) -> None:
            pass

    manager = PluginManager()
    made = module("my_plugin", graphmill_register_ops=graphmill_register_ops)
    manager.load_objects([made, Plugin(), Plugin(), Static])
    assert [r.name for r in manager.records] == ["my_plugin", "Plugin", "Plugin#2", "Static"]
    assert {r.status for r in manager.records} == {"loaded"}


def test_a_broken_plugin_of_the_program_raises() -> None:
    with pytest.raises(PluginError, match="it implements no hook") as caught:
        PluginManager().load_objects([module("my_plugin")])
    assert caught.value.plugin == "my_plugin"


def test_a_hook_without_its_marker_is_found() -> None:
    def graphmill_register_devices(devices: Any) -> None:
        pass

    plugin = module(
        "my_plugin",
        graphmill_register_ops=graphmill_register_ops,
        graphmill_register_devices=graphmill_register_devices,
    )
    with pytest.raises(PluginError, match="register_devices is not marked as a hook: decorate it"):
        PluginManager().load_objects([plugin])


def test_a_wrapper_is_refused() -> None:
    class Plugin:
        @graphmill.hookimpl(wrapper=True)
        def graphmill_configure(self, host: Any) -> Any:
            return (yield)

    with pytest.raises(PluginError, match="graphmill_configure is a wrapper"):
        PluginManager().load_objects([Plugin()])


@pytest.mark.parametrize("order", ["tryfirst", "trylast"])
def test_a_requested_order_is_reported(order: str) -> None:
    class Plugin:
        @graphmill.hookimpl(**{order: True})
        def graphmill_configure(self, host: Any) -> None:
            pass

    manager = PluginManager()
    with pytest.warns(PluginWarning, match=r"graphmill_configure of .* no effect"):
        manager.load_objects([Plugin()])
    assert manager.records[0].status == "loaded"


def test_an_optional_hook_may_be_unknown() -> None:
    class Plugin:
        @graphmill.hookimpl(optionalhook=True)
        def graphmill_of_a_later_version(self, anything: Any) -> None:
            pass

        @graphmill.hookimpl
        def graphmill_configure(self, host: Any) -> None:
            pass

    manager = PluginManager()
    manager.load_objects([Plugin()])
    assert manager.records[0].status == "loaded"


def test_raising_hook_does_not_stop_other_hooks(
    monkeypatch: pytest.MonkeyPatch, use_dists: UseDists
) -> None:
    use_dists("twin_a", "raising_hook", "rival_a")
    manager = load()
    called = []

    def arguments(record: PluginRecord) -> dict[str, object]:
        called.append(record.name)
        if record.name == "raising":
            raise ZeroDivisionError("an accident")
        return {"devices": types.SimpleNamespace(add=lambda *_, **__: None)}

    with pytest.warns(PluginWarning, match="graphmill_register_devices raised ZeroDivisionError"):
        manager.call_each("graphmill_register_devices", arguments)
    strangers = [name for name in called if name in ("raising", "rival_a", "twin")]
    assert strangers == ["raising", "rival_a", "twin"]
    assert record(manager, "raising").status == "failed"
    assert record(manager, "twin").status == "loaded"


def test_a_broken_built_in_raises(use_dists: UseDists) -> None:
    use_dists("broken_builtin")
    manager = PluginManager()
    manager.load_installed()
    with pytest.raises(PluginError, match=r"plugin 'broken_builtin' \(graphmill 99.0\)") as caught:
        manager.call_each("graphmill_register_executors", lambda _: {"executors": None})
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_plugin_with_the_name_of_a_built_in_is_refused(
    tmp_path: Path, use_dists: UseDists
) -> None:
    info = tmp_path / "impostor-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: impostor\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[graphmill.plugins]\nbroken_builtin = fake_twin_a\n")
    use_dists("twin_a", tmp_path, "broken_builtin")
    manager = load("the name 'broken_builtin' is used by graphmill 99.0")
    statuses = {r.distribution: r.status for r in manager.records if r.name == "broken_builtin"}
    assert statuses == {"graphmill": "loaded", "impostor": "conflict"}


def test_messages_report_a_missing_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manager_module.discovery, "entry_point_plugins", list)
    manager = load()
    (note,) = manager.failures()
    assert "the distribution 'graphmill' is not installed here" in note
    assert "pip install -e ." in note


def test_a_record_converts_to_plain_values(use_dists: UseDists) -> None:
    use_dists("twin_a")
    assert record(load(), "twin").as_dict() == {
        "name": "twin",
        "module": "fake_twin_a",
        "source": "entry point",
        "distribution": "graphmill-twin-a",
        "version": "1.0",
        "status": "loaded",
        "error": "",
        "registered": {},
    }
