"""Declare the process-wide effects of graphmill, and read which ones the user has switched off.

An effect reaches beyond graphmill's own objects: it changes a setting of the interpreter, the C
library or another library, or it installs a hook. `GRAPHMILL_PROCESS_EFFECTS="-malloc,-shutdown"`
switches effects off, "-all" switches off every one. The variable is read once, before the first
effect takes place.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import cache
from typing import Final, NamedTuple

VARIABLE: Final = "GRAPHMILL_PROCESS_EFFECTS"
ALL: Final = "all"


class ProcessEffect(NamedTuple):
    """One effect on the process.

    Attributes:
        name: what the environment variable and `graphmill doctor` call it.
        changes: what it changes, or relies on.
        when: when it starts and ends.
        why: its purpose.
        cost: the cost of switching it off.
    """

    name: str
    changes: str
    when: str
    why: str
    cost: str

    @property
    def is_enabled(self) -> bool:
        """Whether the user has not switched it off."""
        return self.name not in disabled()


SWITCH_INTERVAL: Final = ProcessEffect(
    "switch_interval",
    "lowers sys.setswitchinterval to 0.1 ms",
    "while a background thread compiles or builds a graph; restored afterwards",
    "a thread that imports and compiles asks for the GIL thousands of times, and would wait 5 ms "
    "each time behind a loop of steps",
    "compilation takes much longer while other threads compute",
)
FULL_COLLECTIONS: Final = ProcessEffect(
    "full_collections",
    "raises the thresholds of the garbage collector (gc.set_threshold)",
    "while a graph of 10,000 nodes or more is built or lowered, and while a background thread "
    "compiles; restored afterwards",
    "each full collection visits all nodes again while the other threads wait, and lowering and "
    "tracing create enough objects for many",
    "lowering a graph of 100,000 nodes takes up to 50% longer; single steps wait 0.1 s while a "
    "large network is compiled",
)
MALLOC: Final = ProcessEffect(
    "malloc",
    "calls glibc's mallopt: M_MMAP_THRESHOLD 128 MiB, M_TRIM_THRESHOLD 256 MiB",
    "when the first CPU device is created, permanently; not if the environment configures malloc",
    "large arrays that a step frees are reused by the next one instead of being unmapped",
    "steps with large arrays take up to a third longer (page faults)",
)
DEFER_SIGINT: Final = ProcessEffect(
    "defer_sigint",
    "replaces the SIGINT handler",
    "in the main thread, while a compiled program writes variables in place, or a call to a server "
    "begins; restored afterwards",
    "an interrupt between the write and the update of the variable would lose its value",
    "Ctrl-C during a training step can lose the values of variables, or leave a call running",
)
SHUTDOWN: Final = ProcessEffect(
    "shutdown",
    "registers callbacks with the interpreter's shutdown of threads (threading._register_atexit), "
    "and with atexit",
    "when the first session is created, permanently",
    "daemon threads inside a C++ library can abort the process when the interpreter exits, "
    "and open datasets and isolated models must be closed",
    'the process may end with "FATAL: exception not rethrown" if threads are busy when it exits',
)
FORK: Final = ProcessEffect(
    "fork",
    "registers callbacks with os.register_at_fork",
    "when graphmill's runtime is imported, permanently",
    "a forked child has only one thread, and inherits locks that no thread will release",
    "a session that was created before a fork hangs in the child",
)
BLAS_THREADS: Final = ProcessEffect(
    "blas_threads",
    "sets the number of OpenBLAS threads to 1",
    "while graphmill multiplies large matrices or factors one on its own threads; restored then",
    "OpenBLAS threads spin while they wait, and slow down everything else that computes",
    "large products run on OpenBLAS threads; much slower if other threads compute, too",
)
INTRA_OP_THREADS: Final = ProcessEffect(
    "intra_op_threads",
    "sets the number of OpenBLAS threads, and NPROC in os.environ while JAX starts its CPU client",
    "when the first session with intra_op_parallelism_threads is created, permanently",
    "libraries have no other interface for the number of threads that compute one kernel",
    "intra_op_parallelism_threads is ignored",
)
WARNING_FILTERS: Final = ProcessEffect(
    "warning_filters",
    "ignores all Python warnings",
    "while SciPy computes a logarithm, exponential or square root of a matrix; restored afterwards",
    "SciPy warns about rounding errors far below the precision of float32",
    "SciPy's warnings are shown",
)
REFERENCE_COUNTS: Final = ProcessEffect(
    "reference_counts",
    "changes nothing; relies on sys.getrefcount to detect other references to an array",
    "at each fetch, sparse update and compiled update of a variable",
    "an array without other references is returned or overwritten without a copy",
    "fetches and updates of variables are copied",
)
JAX_DISPATCH: Final = ProcessEffect(
    "jax_dispatch",
    "sets the option jax_cpu_enable_async_dispatch to False",
    "while JAX starts its CPU client, if graphmill is the first to use JAX; it is permanent",
    "a compiled step computes in the calling thread instead of waiting for another one",
    "each compiled step takes about 45 µs longer",
)
"""Calls of compiled steps stay in the calling thread."""
JAX_GPU_MEMORY: Final = ProcessEffect(
    "jax_gpu_memory",
    "sets XLA_PYTHON_CLIENT_PREALLOCATE and XLA_PYTHON_CLIENT_MEM_FRACTION in os.environ",
    "while JAX starts its GPU client, if the session's gpu_options request it; restored afterwards",
    "JAX has no other interface for allow_growth and per_process_gpu_memory_fraction",
    "these two options are ignored",
)
"""JAX allocates GPU memory as the session's `gpu_options` request."""
PROFILE_HOOK: Final = ProcessEffect(
    "profile_hook",
    "sets sys.setprofile in the thread of a kernel",
    "while a kernel runs under GRAPHMILL_VALIDATE=1, unless a profiler is set; restored afterwards",
    "a kernel that waits for another node without declaring it is found",
    "undeclared waits are not found",
)
"""Waits of kernels are watched in validation mode."""

EFFECTS: Final = {
    effect.name: effect
    for effect in (
        *(SWITCH_INTERVAL, FULL_COLLECTIONS, MALLOC, DEFER_SIGINT, SHUTDOWN, FORK, BLAS_THREADS),
        *(WARNING_FILTERS, INTRA_OP_THREADS, REFERENCE_COUNTS, JAX_DISPATCH, JAX_GPU_MEMORY),
        PROFILE_HOOK,
    )
}
"""All effects by name."""


@cache
def disabled() -> frozenset[str]:
    """Return the names of the effects that the environment switches off."""
    names, unknown = parse(os.environ.get(VARIABLE, ""))
    if unknown:
        warnings.warn(
            f"{VARIABLE} has {', '.join(map(repr, unknown))}; expected '-NAME' separated by "
            f"commas, with the names {', '.join([ALL, *EFFECTS])}",
            RuntimeWarning,
            stacklevel=2,
        )
    return names


def parse(text: str) -> tuple[frozenset[str], list[str]]:
    """Return the names that a value of the variable switches off, and its invalid parts."""
    parts = [part for item in text.split(",") if (part := item.strip())]
    names = {part.removeprefix("-") for part in parts if part.startswith("-")}
    unknown = [part for part in parts if part.removeprefix("-") not in {*EFFECTS, ALL}]
    unknown += [part for part in parts if not part.startswith("-") and part not in unknown]
    off = EFFECTS if ALL in names else names & set(EFFECTS)
    return frozenset(off), unknown


def not_applicable(effect: ProcessEffect) -> str:
    """Return why an effect cannot take place in this process; "" if it can."""
    if effect is MALLOC:
        from graphmill.runtime.process.malloc import why_not

        return why_not()
    if effect is FORK and not hasattr(os, "fork"):
        return "this system has no os.fork"
    if effect is REFERENCE_COUNTS and not has_gil():
        return "this Python runs without the GIL"
    return ""


def has_gil() -> bool:
    """Return whether only one thread at a time runs Python code."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def state_of(effect: ProcessEffect) -> str:
    """Return "on", "off" or why it is not applicable, for display."""
    if not effect.is_enabled:
        return f"off ({VARIABLE})"
    reason = not_applicable(effect)
    return f"not applicable: {reason}" if reason else "on"
