"""Host assembly: provenance, broken plugins, conflicts."""

from __future__ import annotations

import sys
import threading
import types
import warnings
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors
from graphmill.plugin import host as host_module
from graphmill.plugin.host import Host, default_host
from graphmill.plugin.manager import PluginWarning
from graphmill.plugin.step_observers import StepInfo
from graphmill.registry import PluginConflictError, PluginError, Provenance
from graphmill.runtime.devices.device import DeviceFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.plugin.records import PluginRecord

    UseDists = Callable[..., None]

DOWNSTREAM = Provenance("downstream", "graphmill-downstream", "1.2", "fake_downstream")


def quiet_host(*plugins: object) -> Host:
    """Return a host with all installed plugins, ignoring warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        return Host(plugins)


def bare_host(*plugins: object) -> Host:
    return Host(plugins, load_entry_points=False)


def record(host: Host, name: str) -> PluginRecord:
    (found,) = (r for r in host.plugins if r.name == name)
    return found


def plugin(name: str, **hooks: Callable[..., Any]) -> types.ModuleType:
    """Return a plugin with these hooks, named without their prefix."""
    made = types.ModuleType(name)
    for hook, function in hooks.items():
        setattr(made, f"graphmill_{hook}", graphmill.hookimpl(function))
    return made


class TestGoodPlugin:
    @pytest.fixture
    def host(self, use_dists: UseDists) -> Host:
        use_dists("good")
        return Host()

    def test_record_lists_registrations(self, host: Host) -> None:
        found = record(host, "downstream")
        assert found.status == "loaded"
        assert found.owner == DOWNSTREAM
        assert found.registered == {
            "ops": ["Downstream>MulAdd3"],
            "kernels": ["Downstream>MulAdd3"],
            "lowerings": ["Downstream>MulAdd3"],
            "gradients": ["Downstream>MulAdd3"],
            "devices": ["NPU"],
            "executors": ["SEQUENTIAL"],
            "passes": ["say_hello"],
            "transports": ["rdma"],
            "session_factories": ["quic"],
            "servers": ["quic"],
            "commands": ["model-size"],
            "exporters": ["openvino"],
            "variants": ["Downstream>Pair"],
            "hooks": ["configure", "step_started", "step_finished"],
        }
        assert found.counts["devices"] == 1

    def test_nothing_is_imported_before_it_is_used(self, host: Host) -> None:
        assert "fake_downstream.kernels" not in sys.modules
        assert "fake_downstream.device" not in sys.modules
        assert isinstance(host.devices.get("NPU"), DeviceFactory)
        assert "fake_downstream.device" in sys.modules

    def test_every_registry_lists_the_plugin(self, host: Host) -> None:
        assert host.devices.provenance("NPU") == DOWNSTREAM
        assert host.devices.priority("NPU") == 150
        assert host.executors.provenance("SEQUENTIAL") == DOWNSTREAM
        assert host.passes.provenance("say_hello") == DOWNSTREAM
        assert host.transports.provenance("rdma") == DOWNSTREAM
        assert host.session_factories.provenance("quic") == DOWNSTREAM
        assert host.servers.provenance("quic") == DOWNSTREAM
        assert host.commands.get("model-size")() == "heavy"  # type: ignore[operator]
        assert host.exporters.provenance("openvino") == DOWNSTREAM
        assert str(DOWNSTREAM) in host.ops.owner("Downstream>MulAdd3")

    def test_its_kernel_is_found(self, host: Host) -> None:
        from graphmill import dtypes

        op_def = host.ops.get("Downstream>MulAdd3")
        attrs = {"T": dtypes.float32, "scale": 1.0}
        choice = host.kernels.find(op_def, attrs, "CPU", ["numpy"])
        assert choice.owner == DOWNSTREAM
        assert "fake_downstream.kernels" in sys.modules

    def test_its_pass_is_in_its_phase(self, host: Host) -> None:
        scheduled = [name for name, _ in host.passes.scheduled_in("PRE_PLACEMENT")]
        assert "say_hello" in scheduled
        host.passes.get("say_hello")([], None)  # type: ignore[arg-type]
        assert sys.modules["fake_downstream"].SEEN[-1] == ("hello", [])
        assert host.passes.schedule("say_hello").order == 5

    def test_it_is_configured_once_and_last(self, host: Host) -> None:
        seen = sys.modules["fake_downstream"].SEEN
        assert seen == [("configure", host)]

    def test_observers_are_notified_of_steps(self, host: Host) -> None:
        observers = host.step_observers
        assert observers is not None
        step = StepInfo(7, "s", ["x:0"], ["y:0"], [])
        observers.started(step)
        observers.finished(step, 0.25)
        seen = sys.modules["fake_downstream"].SEEN
        assert seen[1:] == [
            ("started", step),
            ("finished", step, 0.25, None),
        ]


class TestFaults:
    def test_registrations_of_failing_plugin_are_removed(self, use_dists: UseDists) -> None:
        use_dists("raising_hook")
        with pytest.warns(PluginWarning) as caught:
            host = Host()
        assert "HALF" not in host.devices
        failed = record(host, "raising")
        assert failed.status == "failed"
        assert failed.registered == {}
        assert failed.error == (
            "graphmill_register_executors raised RuntimeError: the licence server is down"
        )
        assert len(caught) == 1
        assert "GRAPHMILL_DISABLE_PLUGINS=raising" in str(caught[0].message)

    def test_not_found_errors_name_the_plugins_that_failed(self, use_dists: UseDists) -> None:
        use_dists("raising_hook", "broken_import")
        host = quiet_host()
        with pytest.raises(errors.NotFoundError) as caught:
            host.devices.get("HALF")
        assert "plugin 'raising' (graphmill-raising-hook 1.0)" in str(caught.value)
        assert "there_is_no_such_module" in str(caught.value)
        assert len(host.plugin_failures()) >= 2

    def test_a_broken_built_in_raises(self, use_dists: UseDists) -> None:
        use_dists("broken_builtin")
        with pytest.raises(PluginError, match="our own fault"):
            Host()

    def test_a_broken_plugin_of_the_program_raises(self) -> None:
        def register_ops(ops: Any) -> None:
            raise ZeroDivisionError("an accident")

        with pytest.raises(PluginError, match="graphmill_register_ops raised ZeroDivisionError"):
            bare_host(plugin("mine", register_ops=register_ops))

    def test_failing_configure_removes_the_plugin(
        self, use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_dists("good")
        import fake_downstream  # type: ignore[import-not-found]

        monkeypatch.setattr(fake_downstream, "SEEN", None)
        with pytest.warns(PluginWarning, match="graphmill_configure raised AttributeError"):
            host = Host()
        assert "NPU" not in host.devices
        assert "Downstream>MulAdd3" not in host.ops
        assert host.step_observers is None

    def test_a_bad_argument_is_the_plugins_fault(self) -> None:
        def register_passes(passes: Any) -> None:
            passes.add("p", "a.b:c", phase="POST_PLACMENT")

        with pytest.raises(PluginError, match="did you mean 'POST_PLACEMENT'"):
            bare_host(plugin("mine", register_passes=register_passes))


class TestConflicts:
    @pytest.mark.parametrize("order", [("rival_a", "rival_b"), ("rival_b", "rival_a")])
    def test_third_party_registrations_of_one_key_are_both_refused(
        self, use_dists: UseDists, order: tuple[str, str]
    ) -> None:
        use_dists(*order)
        with pytest.warns(PluginWarning) as caught:
            host = Host()
        assert len(caught) == 2
        assert not {"RIVAL", "RIVAL_A", "RIVAL_B"} & set(host.devices.keys())
        for name in ("rival_a", "rival_b"):
            refused = record(host, name)
            assert refused.status == "conflict"
            assert "plugin 'rival_a' (graphmill-rival-a 1.0)" in refused.error
            assert "plugin 'rival_b' (graphmill-rival-b 2.0)" in refused.error

    def test_disabling_one_helps_the_other(
        self, use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_dists("rival_a", "rival_b")
        monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "rival_a")
        host = Host()
        assert host.devices.provenance("RIVAL").plugin == "rival_b"

    def test_a_rival_that_fails_by_itself_does_no_harm(
        self, use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use_dists("rival_a", "rival_b")
        import fake_rival_b  # type: ignore[import-not-found]

        @graphmill.hookimpl
        def graphmill_register_commands(commands: Any) -> None:
            raise RuntimeError("later")

        monkeypatch.setattr(
            fake_rival_b, "graphmill_register_commands", graphmill_register_commands, raising=False
        )
        host = quiet_host()
        assert record(host, "rival_b").status == "failed"
        assert record(host, "rival_a").status == "loaded"
        assert host.devices.provenance("RIVAL").plugin == "rival_a"

    def test_two_plugins_of_the_program_raise(self) -> None:
        def register_devices(devices: Any) -> None:
            devices.add("NPU", "os:path")

        mine = plugin("mine", register_devices=register_devices)
        yours = plugin("yours", register_devices=lambda devices: register_devices(devices))
        with pytest.raises(PluginConflictError, match=r"plugin 'mine'.*plugin 'yours'"):
            bare_host(mine, yours)

    def test_replace_wins_without_a_conflict(self) -> None:
        class Replacing(DeviceFactory):
            def create_devices(self, config: Any, name_prefix: str) -> list[Any]:
                return []

        mine = plugin("mine", register_devices=lambda devices: devices.add("NPU", "os:path"))
        yours = plugin(
            "yours",
            register_devices=lambda devices: devices.add("NPU", Replacing, replace=True),
        )
        for order in ((mine, yours), (yours, mine)):
            assert isinstance(bare_host(*order).devices.get("NPU"), Replacing)

    def test_an_op_of_tensorflow_cannot_be_redefined(self) -> None:
        from graphmill.ops.definition.op_def import OpDef

        mine = plugin("mine", register_ops=lambda ops: ops.add(OpDef("MatMul")))
        with pytest.raises(PluginConflictError, match=r"'MatMul' of plugin 'mine'.*by TensorFlow"):
            bare_host(mine)


class TestObservers:
    def test_a_host_without_step_hooks_has_none(self) -> None:
        assert bare_host().step_observers is None

    def test_an_observer_that_raises_is_switched_off_and_logged(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        calls: list[str] = []

        def step_started(step: Any) -> None:
            calls.append("bad")
            raise ValueError("no disk")

        good = plugin("good", step_started=lambda step: calls.append("good"))
        bad = plugin("bad", step_started=step_started)
        host = bare_host(bad, good)
        observers = host.step_observers
        assert observers is not None
        observers.started(None)  # type: ignore[arg-type]
        observers.started(None)  # type: ignore[arg-type]
        assert calls == ["bad", "good", "good"]
        assert record(host, "bad").error == "step observer switched off: ValueError: no disk"
        assert record(host, "bad").status == "loaded"
        assert "plugin 'bad'" in caplog.text

    def test_an_observer_takes_only_the_arguments_that_it_names(self) -> None:
        seen: list[Any] = []
        host = bare_host(plugin("mine", step_finished=lambda error, seconds: seen.append(seconds)))
        assert host.step_observers is not None
        host.step_observers.finished(None, 1.5)  # type: ignore[arg-type]
        assert seen == [1.5]


class TestPasses:
    def test_passes_run_by_order_then_by_name(self) -> None:
        def register_passes(passes: Any) -> None:
            passes.add("c", lambda graph, options: None, phase="POST_PLACEMENT", order=1)
            passes.add("b", lambda graph, options: None, phase="POST_PLACEMENT", order=2)
            passes.add("a", lambda graph, options: None, phase="POST_PLACEMENT", order=2)
            passes.add("other", lambda graph, options: None, phase="PRE_PLACEMENT")

        host = bare_host(plugin("mine", register_passes=register_passes))
        assert [name for name, _ in host.passes.scheduled_in("POST_PLACEMENT")] == ["c", "a", "b"]

    def test_replacing_pass_has_its_own_schedule(self) -> None:
        def add(place: int, **options: Any) -> Callable[..., None]:
            def register_passes(passes: Any) -> None:
                passes.add("p", "os:getcwd", phase="PRE_PLACEMENT", order=place, **options)

            return register_passes

        host = bare_host(
            plugin("mine", register_passes=add(1)),
            plugin("yours", register_passes=add(9, replace=True)),
        )
        assert host.passes.schedule("p").order == 9

    def test_a_class_is_made_once(self) -> None:
        class Counting:
            def __call__(self, graph: Any, options: Any) -> None: ...

        def register_passes(passes: Any) -> None:
            passes.add("p", Counting, phase="PRE_PLACEMENT")

        host = bare_host(plugin("mine", register_passes=register_passes))
        assert isinstance(host.passes.get("p"), Counting)

    def test_non_callable_is_not_a_pass(self) -> None:
        def register_passes(passes: Any) -> None:
            passes.add("p", "os:sep", phase="PRE_PLACEMENT")

        host = bare_host(plugin("mine", register_passes=register_passes))
        with pytest.raises(PluginError, match="'/' is not callable"):
            host.passes.get("p")


class TestKernels:
    def test_families_are_recorded_with_module_and_backend(self) -> None:
        def register_kernels(kernels: Any) -> None:
            kernels.add_family("math", "mine.math")
            kernels.add_family("math", "mine.jax.math", backend="jax")

        host = bare_host(plugin("mine", register_kernels=register_kernels))
        assert record(host, "mine").registered["kernels"] == [
            "family math: mine.math",
            "family math: mine.jax.math [jax]",
        ]

    def test_a_decorated_function_is_recorded_by_its_ops(self) -> None:
        from graphmill.runtime.kernels.kernel import kernel

        @kernel("Relu", "Relu6")
        def relu(xp: Any, x: Any) -> Any:
            return x

        host = bare_host(plugin("mine", register_kernels=lambda kernels: kernels.add(relu)))
        assert record(host, "mine").registered["kernels"] == ["Relu", "Relu6"]


class TestDefaultHost:
    @pytest.fixture(autouse=True)
    def fresh(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(host_module, "_default", None)
        monkeypatch.setattr(host_module, "Host", lambda: bare_host(*self.plugins))

    plugins: tuple[object, ...] = ()

    def test_it_is_made_once(self) -> None:
        assert default_host() is default_host()

    def test_all_threads_get_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entered, go_on = threading.Event(), threading.Event()

        def register_ops(ops: Any) -> None:
            entered.set()
            go_on.wait(timeout=30)

        monkeypatch.setattr(
            TestDefaultHost, "plugins", (plugin("mine", register_ops=register_ops),)
        )
        got: list[Host] = []
        threads = [threading.Thread(target=lambda: got.append(default_host())) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert entered.wait(timeout=30)
        go_on.set()
        for thread in threads:
            thread.join()
        assert len(got) == 3
        assert len(set(map(id, got))) == 1

    def test_too_early_access_to_host_is_reported(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = plugin("mine", register_ops=lambda ops: default_host())
        monkeypatch.setattr(TestDefaultHost, "plugins", (mine,))
        with pytest.raises(PluginError, match="while the default host is being assembled"):
            default_host()

    def test_after_a_failure_the_next_call_tries_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        mine = plugin("mine", register_ops=lambda ops: ops.add(object()))
        monkeypatch.setattr(TestDefaultHost, "plugins", (mine,))
        with pytest.raises(PluginError):
            default_host()
        monkeypatch.setattr(TestDefaultHost, "plugins", ())
        assert isinstance(default_host(), Host)
