"""Only the package `runtime/process` calls functions that affect the whole process."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.divided

ROOT = Path(__file__).parents[4]
HERE = ROOT / "core" / "graphmill" / "runtime" / "process"

FUNCTIONS = frozenset(
    {
        # The interpreter
        *("setswitchinterval", "setrecursionlimit", "getrefcount", "settrace", "setprofile"),
        *("addaudithook", "setdlopenflags", "set_int_max_str_digits", "stack_size"),
        # Its start and end, and forks
        *("_register_atexit", "register_at_fork", "_at_fork_reinit", "set_start_method"),
        # The system
        *("mallopt", "mallctl", "CDLL", "PyDLL", "setrlimit", "setpriority", "nice", "umask"),
        *("chdir", "sched_setaffinity", "setlocale", "set_wakeup_fd", "setitimer", "alarm"),
        *("putenv", "unsetenv", "pthread_sigmask", "raise_signal"),
        # Warnings, and what is thread- or context-local elsewhere
        *("catch_warnings", "simplefilter", "filterwarnings", "resetwarnings", "seterrcall"),
    }
)
"""Functions and variables that are identified by their name alone."""
OF_MODULES = {
    "signal": {"signal", "siginterrupt"},
    "_signal": {"signal", "siginterrupt"},
    "atexit": {"register", "unregister"},
    "faulthandler": {"enable", "disable", "register"},
    "gc": {"disable", "enable", "freeze", "set_threshold"},
    "locale": {"setlocale"},
    "logging": {"basicConfig", "disable", "captureWarnings"},
    "random": {"seed"},
    "os": {"fork", "forkpty"},
    "environ": {"update", "setdefault", "pop", "clear", "popitem"},
    "config": {"update"},
}
"""Methods that also exist on other objects: `os.environ.pop`, `jax.config.update`."""

ELSEWHERE = {
    # JAX's own configuration: core does not know JAX. Declared as the effect "jax_dispatch".
    ("plugins/graphmill_plugins/_jax.py", "config.update"),
    # Tools of tests, in processes of their own.
    ("core/graphmill/testing/runners/subprocess_runner.py", "setrlimit"),
    ("core/graphmill/testing/oracle/tensorflow_oracle.py", "environ.setdefault"),
    # The kit's search for kernels that open files themselves; nothing else imports it.
    ("core/graphmill/testing/direct_access.py", "addaudithook"),
    # The command line's own process: it prints warnings in its own form, `doctor` in a table.
    ("core/graphmill/cli/main.py", "catch_warnings"),
    ("core/graphmill/cli/commands/doctor.py", "catch_warnings"),
    ("core/graphmill/cli/commands/doctor.py", "simplefilter"),
    # And it ends on SIGTERM and SIGINT as a server does.
    ("plugins/graphmill_plugins/_server/stop_signals.py", "signal.signal"),
    ("plugins/graphmill_plugins/_server/stop_signals.py", "set_wakeup_fd"),
}
"""Calls outside of `runtime/process`; this may only shrink."""


def calls_of(source: str) -> set[str]:
    """Return the process-wide functions and variables that a module uses."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found |= _names(node)
        elif isinstance(node, ast.ImportFrom):
            known = FUNCTIONS | OF_MODULES.get(node.module or "", set())
            found |= {alias.name for alias in node.names if alias.name in known}
        elif _sets_variable(node):
            found.add("environ[]")
    return found


def _sets_variable(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and not isinstance(node.ctx, ast.Load)
        and ast.unparse(node.value).endswith("environ")
    )


def _names(node: ast.Attribute) -> set[str]:
    if node.attr in FUNCTIONS:
        return {node.attr}
    module = ast.unparse(node.value).rpartition(".")[2]
    return {f"{module}.{node.attr}"} if node.attr in OF_MODULES.get(module, ()) else set()


def test_process_wide_functions_are_called_in_one_package() -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), name)
        for folder in ("core", "plugins")
        for file in (ROOT / folder).rglob("*.py")
        if not file.is_relative_to(HERE)
        for name in calls_of(file.read_text(encoding="utf-8"))
    }
    assert found - ELSEWHERE == set(), "declare the effect in runtime/process/effects.py"
    assert ELSEWHERE - found == set(), "take it off the list"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import sys\nsys.setswitchinterval(1)", {"setswitchinterval"}),
        ("from sys import getrefcount", {"getrefcount"}),
        ("count = sys.getrefcount", {"getrefcount"}),
        ("import signal\nsignal.signal(2, f)", {"signal.signal"}),
        ("from atexit import register", {"register"}),
        ("os.environ['A'] = 'b'", {"environ[]"}),
        ("del os.environ['A']", {"environ[]"}),
        ("value = os.environ['A']", set()),
        ("os.environ.pop('A')", {"environ.pop"}),
        ("{}.pop('A'); registry.register(f)", set()),
        ("jax.config.update('x', 1)", {"config.update"}),
        ("getattr(ctypes.CDLL(None), 'mallopt')", {"CDLL"}),
        ("os.register_at_fork(before=f)", {"register_at_fork"}),
        ("from scipy import signal\nsignal.fft(x)", set()),
    ],
)
def test_how_calls_are_found(source: str, expected: set[str]) -> None:
    assert calls_of(source) == expected
