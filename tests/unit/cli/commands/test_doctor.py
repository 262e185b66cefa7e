"""`graphmill doctor` reports what is installed, what is wrong, and how to fix it."""

from __future__ import annotations

import json
import warnings

import pytest

from graphmill.cli.commands import doctor as doctor_module
from graphmill.cli.diagnostics import installation
from graphmill.isolation.limits import PROTECTIONS
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.process import effects


@pytest.fixture
def no_jax(monkeypatch):
    """Replace the query of JAX, which takes a subprocess, in tests of other parts."""
    monkeypatch.setattr(
        "graphmill.cli.commands.doctor._jax", lambda: {"platform": "cpu", "devices": []}
    )


@pytest.fixture
def host(use_dists):
    use_dists("broken_import", "spi_too_new", "rival_a", "rival_b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Host()


@pytest.mark.usefixtures("no_jax")
def test_each_broken_plugin_has_a_line_of_advice(graphmill_cli, host) -> None:
    outcome = graphmill_cli("doctor", host=host)
    assert outcome.code == 1
    advice = [line for line in outcome.out.splitlines() if line.startswith("-> ")]
    unused = [r for r in host.plugins if r.status in ("failed", "conflict")]
    assert len(advice) >= len(unused) >= 3
    for record in unused:
        assert any(repr(record.name) in line for line in advice), record.name
    assert any("install the missing package" in line for line in advice)
    assert any("needs graphmill.spi >=7.0,<8" in line and "upgrade" in line for line in advice)


def test_json_has_everything(graphmill_cli) -> None:
    outcome = graphmill_cli("doctor", "--json")
    data = json.loads(outcome.out)
    assert data["versions"]["numpy"]
    assert data["spi"].startswith("1.")
    assert data["process"]["switch_interval"] == "on"
    assert {"cpu", "default_executor", "kernels"} <= {p["name"] for p in data["plugins"]}
    assert data["jax"].keys() in ({"platform", "devices"}, {"missing"})


@pytest.mark.usefixtures("no_jax")
@pytest.mark.parametrize(("fault", "state"), [("", "available"), ("no kernel", "no kernel")])
def test_isolation_is_reported(graphmill_cli, monkeypatch, fault: str, state: str) -> None:
    monkeypatch.setattr("graphmill.isolation.protections._system_fault", lambda: fault)
    monkeypatch.setattr("graphmill.isolation.protections._FAULTS", dict.fromkeys(PROTECTIONS, str))
    assert f"isolation of models: {state}\n" in graphmill_cli("doctor").out


@pytest.mark.usefixtures("no_jax")
def test_process_effects_are_listed_with_their_state(graphmill_cli, monkeypatch) -> None:
    monkeypatch.setenv(effects.VARIABLE, "-malloc")
    effects.disabled.cache_clear()
    try:
        data = json.loads(graphmill_cli("doctor", "--json").out)
        text = graphmill_cli("doctor").out
    finally:
        monkeypatch.undo()
        effects.disabled.cache_clear()
    assert set(data["process"]) == set(effects.EFFECTS)
    assert data["process"]["malloc"] == "off (GRAPHMILL_PROCESS_EFFECTS)"
    assert data["process"]["shutdown"] == "on"
    assert all(name in text for name in effects.EFFECTS)


@pytest.fixture
def host_of(use_dists, tmp_path):
    """Return a function that makes hosts with one more plugin: source and requirements."""

    def make(source, requires=""):
        info = tmp_path / "graphmill_ill-1.2.dist-info"
        info.mkdir()
        (tmp_path / "ill.py").write_text("from graphmill.spi import *\n" + source)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: graphmill-ill\nVersion: 1.2\n{requires}"
        )
        (info / "entry_points.txt").write_text("[graphmill.plugins]\nill = ill\n")
        use_dists(tmp_path)
        return Host()

    return make


ILL = {
    "@hookimpl\ndef graphmill_register_devices(devices):\n    devices.add('NPU', 'no.where:It')": (
        "cannot load device 'NPU' from 'no.where:It'"
    ),
    "@hookimpl\ndef graphmill_register_commands(commands):\n    commands.add('zap', 'os:zap')": (
        "cannot load command 'zap'"
    ),
    "@hookimpl\ndef graphmill_register_kernels(kernels):\n    kernels.add_module('m', ['Nop'])": (
        "kernels for undefined ops, so they are never used: Nop"
    ),
    "@hookimpl\ndef graphmill_register_lowerings(lowerings):\n"
    "    lowerings.add_module('m', ['Nop'])": (
        "lowerings for undefined ops, so they are never used: Nop"
    ),
    "@hookimpl\ndef graphmill_register_lowerings(lowerings):\n"
    "    lowerings.add(lowering('Neg')(lambda trace, x: -x))": (
        "lowerings for ops that it has no kernel for, so they are never used: Neg; a lowering is "
        "only used with kernels of its own distribution"
    ),
    "class F(DeviceFactory):\n    def create_devices(self, config, name_prefix):\n"
    "        raise RuntimeError('no driver')\n\n"
    "@hookimpl\ndef graphmill_register_devices(devices):\n    devices.add('NPU', F)": (
        "cannot create its devices: RuntimeError: no driver"
    ),
}


@pytest.mark.usefixtures("no_jax")
@pytest.mark.parametrize("source", ILL, ids=ILL.get)
def test_failing_registrations_of_loaded_plugin_are_reported(
    source, graphmill_cli, host_of
) -> None:
    outcome = graphmill_cli("doctor", host=host_of(source))
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("-> ")]
    assert line.startswith("-> plugin 'ill' of graphmill-ill 1.2")
    assert ILL[source] in line
    assert outcome.code == 1


@pytest.mark.usefixtures("no_jax")
@pytest.mark.parametrize(
    ("required", "said"),
    [
        ("no-such-library>=2.3", "needs no-such-library, which is not installed: pip install 'no-"),
        ("numpy<2", "needs numpy <2, but "),
        ("no-such-library>=2.3 ; extra == 'more'", ""),
    ],
)
def test_missing_plugin_requirements_are_reported(required, said, graphmill_cli, host_of) -> None:
    """Missing requirements of plugins are reported: graphmill-torch without PyTorch."""
    source = "@hookimpl\ndef graphmill_configure(host): pass"
    outcome = graphmill_cli("doctor", host=host_of(source, f"Requires-Dist: {required}\n"))
    advice = [line for line in outcome.out.splitlines() if line.startswith("-> ")]
    assert [f"-> graphmill-ill {said}" in line for line in advice] == ([True] if said else [])


@pytest.mark.usefixtures("no_jax")
def test_broken_built_in_plugin_is_reported_without_a_traceback(graphmill_cli, monkeypatch) -> None:
    from graphmill.cli.options import Settings
    from graphmill.registry import PluginError

    def broken(self):
        raise PluginError("plugin 'cpu' (graphmill 0.1.0) is not used: it is broken")

    monkeypatch.setattr(Settings, "the_host", broken)
    outcome = graphmill_cli("doctor")
    assert outcome.code == 1
    assert "-> graphmill cannot be used: plugin 'cpu'" in outcome.out
    assert "Traceback" not in outcome.out + outcome.err


@pytest.mark.usefixtures("no_jax")
@pytest.mark.filterwarnings("ignore::graphmill.registry.PluginWarning")
def test_unknown_hook_argument_lists_available_ones(graphmill_cli, host_of) -> None:
    host = host_of("@hookimpl\ndef graphmill_register_devices(device): pass")
    line = next(ln for ln in graphmill_cli("doctor", host=host).out.splitlines() if "'ill'" in ln)
    assert "expected: graphmill_register_devices(devices)" in line


@pytest.mark.usefixtures("no_jax")
@pytest.mark.filterwarnings("ignore::graphmill.registry.PluginWarning")
def test_dangling_entry_point_is_distinguished_from_missing_library(
    graphmill_cli, host_of, tmp_path
) -> None:
    host_of("@hookimpl\ndef graphmill_configure(host): pass")
    points = tmp_path / "graphmill_ill-1.2.dist-info" / "entry_points.txt"
    points.write_text("[graphmill.plugins]\nill = no_such_ill\n")
    out = graphmill_cli("doctor", host=Host()).out
    assert "its entry point names 'no_such_ill', which does not exist" in out
    assert "install the missing package" not in out


@pytest.mark.usefixtures("no_jax")
def test_observer_plugin_without_distribution_is_listed_with_hooks(
    graphmill_cli,
) -> None:
    class Observer:
        @hookimpl
        def graphmill_step_started(self, step):
            """Do nothing."""

    outcome = graphmill_cli("doctor", host=Host(plugins=[Observer()]))
    assert outcome.code == 0, outcome.err
    assert "hook step_started" in outcome.out


@pytest.mark.usefixtures("no_jax")
def test_two_distributions_of_graphmill_are_reported(graphmill_cli, monkeypatch) -> None:
    both = {"graphmill": "0.1.0", "graphmill-lite": "0.2.0"}
    monkeypatch.setattr("graphmill.distribution.installed", lambda: both)
    outcome = graphmill_cli("doctor")
    assert outcome.code == 1
    assert (
        "-> graphmill 0.1.0 and graphmill-lite 0.2.0 are both installed, and have the same files: "
        "pip uninstall graphmill graphmill-lite, then install one of them"
    ) in outcome.out


def without_jax(monkeypatch) -> None:
    """Make the distribution jax look missing."""
    version_of = doctor_module.version_of
    for module in (doctor_module, installation):
        monkeypatch.setattr(
            module, "version_of", lambda name: None if name == "jax" else version_of(name)
        )


def test_small_installation_without_jax_has_no_problem(graphmill_cli, monkeypatch) -> None:
    without_jax(monkeypatch)
    monkeypatch.setattr("graphmill.distribution.installed", lambda: {"graphmill-lite": "0.1.0"})
    outcome = graphmill_cli("doctor")
    assert "JAX: not installed: steps are interpreted, never compiled" in outcome.out
    assert not [line for line in outcome.out.splitlines() if "jax" in line and "->" in line]


def test_full_installation_without_jax_is_reported_once(graphmill_cli, monkeypatch) -> None:
    without_jax(monkeypatch)
    monkeypatch.setattr("graphmill.distribution.installed", lambda: {"graphmill": "0.1.0"})
    monkeypatch.setattr(installation.metadata, "requires", lambda _: ["jax>=0.9.2"])
    advice = [ln for ln in graphmill_cli("doctor").out.splitlines() if ln.startswith("-> ")]
    assert advice == [
        "-> graphmill needs jax, which is not installed: pip install 'jax>=0.9.2'",
    ]


@pytest.mark.usefixtures("no_jax")
def test_lite_meets_the_requirements_of_plugins(graphmill_cli, host_of, monkeypatch) -> None:
    monkeypatch.setattr("graphmill.distribution.installed", lambda: {"graphmill-lite": "0.1.0"})
    source = "@hookimpl\ndef graphmill_configure(host): pass"
    outcome = graphmill_cli("doctor", host=host_of(source, "Requires-Dist: graphmill>=0.1\n"))
    assert "needs graphmill" not in outcome.out
