"""Each process-wide effect is declared, and can be switched off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphmill.runtime.process import effects

STEP = """
import os, signal, sys, threading, warnings
import numpy as np
import graphmill
from graphmill.runtime.process import effects
"""


def output_of(code: str, off: str) -> str:
    """Run a program with some effects disabled; return its output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", STEP + code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, effects.VARIABLE: off},
        check=False,
    )
    assert not done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("text", "off", "wrong"),
    [
        ("", set(), []),
        ("-malloc", {"malloc"}, []),
        (" -malloc , -fork,", {"malloc", "fork"}, []),
        ("-all", set(effects.EFFECTS), []),
        ("-mallok,-fork", {"fork"}, ["-mallok"]),
        ("malloc", set(), ["malloc"]),
    ],
)
def test_environment_variable_lists_disabled_effects(
    text: str, off: set[str], wrong: list[str]
) -> None:
    assert effects.parse(text) == (off, wrong)


def test_unknown_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(effects.VARIABLE, "-mallok")
    effects.disabled.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match=r"'-mallok'; expected '-NAME'.* malloc,"):
            assert effects.disabled() == set()
    finally:
        monkeypatch.undo()
        effects.disabled.cache_clear()


def test_each_effect_is_described() -> None:
    for name, effect in effects.EFFECTS.items():
        assert effect.name == name
        assert all((effect.changes, effect.when, effect.why, effect.cost)), name


SWITCHED_OFF = {
    "switch_interval": """
from graphmill.runtime.process.switch_interval import LOW_SWITCH_INTERVAL
before = sys.getswitchinterval()
with LOW_SWITCH_INTERVAL:
    print(sys.getswitchinterval() < before)
""",
    "full_collections": """
from graphmill.runtime.process.full_collections import NO_FULL_COLLECTIONS
import gc
before = gc.get_threshold()
without_threshold = sys.version_info >= (3, 14) and "full_collections" not in effects.disabled()
with NO_FULL_COLLECTIONS:
    print(gc.get_threshold() != before or without_threshold)
""",
    "malloc": """
from graphmill.runtime.process.malloc import keep_freed_memory, why_not
print(keep_freed_memory() or (why_not() != "" and "malloc" not in effects.disabled()))
""",
    "defer_sigint": """
from graphmill.runtime.process.defer_sigint import DeferredInterrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
with DeferredInterrupt():
    print(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)
""",
    "shutdown": """
from graphmill.runtime.process.shutdown import SHUTDOWN, watch_for_shutdown
SHUTDOWN.register(lambda: print(True))
watch_for_shutdown()
threading.Thread(target=lambda: None).start()
if "shutdown" in effects.disabled():
    print(False)
""",
    "fork": """
from graphmill.runtime.process.fork import watch_forks
print(watch_forks())
""",
    "blas_threads": """
from graphmill.runtime.process import blas_threads
blas_threads._loaded_libraries = lambda: ["libopenblas.so"]
blas_threads._control_of = lambda path: path
print(blas_threads.find_blas_threads() is not None)
""",
    "warning_filters": """
from graphmill.runtime.process.warning_filters import warnings_ignored
warnings.simplefilter("error")
with warnings_ignored():
    try:
        warnings.warn("rounding")
    except UserWarning:
        print(False)
    else:
        print(True)
""",
    "reference_counts": """
from graphmill.runtime.process.references import counts_prove_ownership
print(counts_prove_ownership())
""",
    "profile_hook": """
from graphmill.runtime.process.profile_hook import calls_watched
seen = []
with calls_watched(lambda *event: seen.append(event)):
    len("")
print(bool(seen))
assert sys.getprofile() is None
""",
    "jax_gpu_memory": """
from graphmill.runtime.process.environment import variables_set
with variables_set(effects.JAX_GPU_MEMORY, {"GRAPHMILL_PROBE": "1"}):
    print("GRAPHMILL_PROBE" in os.environ)
assert "GRAPHMILL_PROBE" not in os.environ
""",
}


@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_effect_takes_place_unless_it_is_switched_off(name: str) -> None:
    effect = effects.EFFECTS[name]
    if effects.not_applicable(effect) and name != "malloc":
        pytest.skip(effects.not_applicable(effect))
    assert output_of(SWITCHED_OFF[name], "-all") == "False"
    assert output_of(SWITCHED_OFF[name], "") == "True"


@pytest.mark.jax
def test_jax_keeps_its_dispatch_if_the_effect_is_off() -> None:
    pytest.importorskip("jax")
    code = """
import jax
seen = []
devices = jax.devices
jax.devices = lambda *names: seen.append(
    jax.config.read("jax_cpu_enable_async_dispatch")) or devices(*names)
from graphmill_plugins._jax import cpu_devices
cpu_devices()
print(seen[0])
"""
    assert output_of(code, "-jax_dispatch") == "True"
    assert output_of(code, "") == "False"


def test_steps_run_with_all_effects_off() -> None:
    code = """
graph = graphmill.Graph()
with graph.as_default():
    x = graph.placeholder("float32", [2], name="x")
    y = x * 2.0
with graphmill.Session(graph=graph) as session:
    first = session.run(y, {x: np.ones(2)})
    first += 1
    print(first.tolist(), session.run(y, {x: np.ones(2)}).tolist())
"""
    assert output_of(code, "-all") == "[3.0, 3.0] [2.0, 2.0]"


def test_importing_graphmill_reads_no_variable() -> None:
    code = "print(effects.disabled.cache_info().currsize)"
    assert output_of(code, "") == "0"


@pytest.mark.parametrize("page", ["explanation/process.md", "reference/environment.md"])
def test_pages_name_each_effect(page: str) -> None:
    text = (Path(__file__).parents[4] / "docs" / page).read_text(encoding="utf-8")
    assert [name for name in effects.EFFECTS if f"`{name}`" not in text] == []
