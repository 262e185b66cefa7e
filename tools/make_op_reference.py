"""Write docs/reference/ops.md and docs/explanation/differences.md from kernels and op cases.

python tools/make_op_reference.py            write them
python tools/make_op_reference.py --check    fail if one differs from what would be written
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import differences as differences_page

import graphmill
from graphmill.ops.definition.effects import effects_of
from graphmill.testing.case import load_cases
from graphmill.testing.dtype_coverage import types_asked
from graphmill.testing.oracle.cpu_types import cpu_types

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.plugin.host import Host
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.testing.case import Case
    from graphmill.testing.dtype_coverage import Asked

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "ops.md"
HEAD = """\
# Ops

<!-- Made by tools/make_op_reference.py from the kernels and the op cases; edit those. -->

This page is for people who want to know whether graphmill supports the ops of a model. It lets you
look up each op's types, backends and restrictions, as tested against stored TensorFlow results.
The columns:

- **types**: the element types that test cases cover, compared with TensorFlow's CPU kernels.
  "all" means that each type has a case with TensorFlow's result (except variants and
  resources); "all but" lists the types without one.
- **backends**: NumPy runs everything on the host; JAX lowers the op for its devices.
- **compiled**: whether a compiler may trace it; if not, why: it needs *values* on the host, has
  *state*, *waits*, or gives a *shape* that depends on values.
- **effects**: what it may do beyond computing outputs (`graphmill.ops.definition.effects`).
- **cases**: how many questions TensorFlow answered.

Notes below a table tell where a case differs from TensorFlow on purpose or is not run on a
backend.

Random ops with a seed give TensorFlow's own numbers, bit for bit, except the last bit of
`float64` values made with logarithms, sines or powers (normal, truncated normal, gamma), where
TensorFlow takes the C library's and we NumPy's. `ParameterizedTruncatedNormal`, also without
state, draws what TensorFlow draws in one thread: where it splits a large tensor between threads,
its numbers depend on their number. Candidate samplers, fractional pooling, distorted crops and
binomial samples give TensorFlow's draws too; `RecordInput` and the noise of `ExtractGlimpse` are
our own, as TensorFlow's depend on chance whatever the seed.

What has no kernel here though a graph may name it: `CudnnRNNV3` and `CudnnRNNBackpropV3`, which
TensorFlow itself has on GPUs only (functions that name them beside others run as long as these are
not reached); and some of the `Xla…` ops, which TensorFlow has inside XLA only.

"""
WITHOUT_VALUES = {"variant", "resource"}


def page(host: Host) -> str:
    """Return the page."""
    cases = load_cases()
    asked = types_asked(cases, host.ops)
    by_op: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_op[case.op].append(case)
    families: dict[str, list[OpDef]] = defaultdict(list)
    known = set(host.ops.names())
    for op in sorted(set(host.kernels.ops()) & known):
        if not op.startswith("_") and ">" not in op:  # `>`: an op of an installed plugin
            families[host.ops.get(op).family].append(host.ops.get(op))
    total = sum(map(len, families.values()))
    parts = [HEAD, f"{total} ops, {len(cases)} cases.\n"]
    for family in sorted(families):
        parts.append(f"\n## {family}\n\n")
        parts.append("| op | types | backends | compiled | effects | cases |\n")
        parts.append("|---|---|---|---|---|---|\n")
        parts += [row(host, op, by_op[op.name], asked) for op in families[family]]
        notes: dict[str, list[str]] = defaultdict(list)
        for definition in families[family]:
            for text in differences(by_op[definition.name]):
                notes[text].append(f"`{definition.name}`")
        parts += ["\n"] if notes else []
        parts += [f"- {' '.join(names)}: {text}.\n" for text, names in notes.items()]
    return "".join(parts)


def row(host: Host, op: OpDef, cases: list[Case], asked: Asked) -> str:
    """Return the line of an op."""
    on_numpy = [r.definition for r in host.kernels.registrations(op, ("numpy",))]
    on_jax = [r.definition for r in host.kernels.registrations(op, ("jax",))]
    lowered = [k for k in on_jax if not k.host and (k.keeps_variable or not k.stateful)]
    backends = " ".join(
        name for name, kernels in (("NumPy", on_numpy), ("JAX", lowered)) if kernels
    )
    is_compiled = any(k.is_traceable or k.keeps_variable for k in on_jax)
    compiled = "yes" if is_compiled else obstacle(on_numpy or on_jax)
    effects = " ".join(f"`{effect}`" for effect in sorted(effects_of(op)))
    cells = (f"`{op.name}`", types(op.name, asked), backends, compiled, effects, str(len(cases)))
    return "| " + " | ".join(cells) + " |\n"


def obstacle(kernels: list[KernelDef]) -> str:
    """Return why no kernel is traced."""
    reasons = {
        "waits": any(kernel.async_ for kernel in kernels),
        "state": any(kernel.stateful for kernel in kernels),
        "shape": any(kernel.dynamic_shape for kernel in kernels),
        "values": any(kernel.host for kernel in kernels),
    }
    return "no: " + ", ".join(reason for reason, holds in reasons.items() if holds)


def types(op: str, asked: Asked) -> str:
    """Return which element types cases ask for."""
    cells = []
    for attr, names in cpu_types().get(op, {}).items():
        wanted = [name for name in names if name not in WITHOUT_VALUES]
        missing = [name for name in wanted if name not in asked[op][attr]]
        if not wanted:
            continue
        told = "all" if not missing else "all but " + " ".join(missing)
        if len(missing) > len(wanted) // 2:
            told = " ".join(sorted(asked[op][attr])) or "none"
        cells.append(f"{attr}: {told}")
    return "; ".join(cells)


def differences(cases: list[Case]) -> list[str]:
    """Return the ways in which cases of an op differ from TensorFlow."""
    told: dict[str, None] = {}
    for case in cases:
        if case.differs:
            told[case.differs] = None
        for backend, reason in case.skip.items():
            told[f"not run on {backend}: {reason}"] = None
        if case.close:
            told[f"other tolerances: {case.close.why}"] = None
    return [" ".join(text.split()).rstrip(".") for text in told]


def main() -> int:
    """Write or check the pages."""
    host = graphmill.default_host()
    pages = {PAGE: page(host), differences_page.PAGE: differences_page.page(host)}
    if "--check" in sys.argv:
        return int(any(file.read_text("utf-8") != text for file, text in pages.items()))
    for file, text in pages.items():
        file.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
