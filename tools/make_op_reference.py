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
from graphmill.testing.dtype_coverage import covered_types
from graphmill.testing.oracle.cpu_types import cpu_types

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.plugin.host import Host
    from graphmill.runtime.kernels.kernel import KernelDef
    from graphmill.testing.case import Case
    from graphmill.testing.dtype_coverage import CoveredTypes

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "ops.md"
HEAD = """\
# Ops

<!-- Written by tools/make_op_reference.py from the kernels and the op cases; edit those. -->

This page is for people who want to know whether graphmill supports the ops of a model. It lets you
look up each op's types, backends and restrictions, as tested against stored TensorFlow results.
The columns:

- **types**: the element types that test cases cover, compared with TensorFlow's CPU kernels.
  "all" means that each type has a case with TensorFlow's result (except variants and
  resources); "all but" lists the types without one.
- **backends**: NumPy runs everything on the host; JAX lowers the op for its devices.
- **compiled**: whether a compiler may trace the op. If not, the reason: it needs *values* on the
  host, has *state*, *waits*, or has an output *shape* that depends on values.
- **effects**: what the op may do beyond computing outputs (`graphmill.ops.definition.effects`).
- **cases**: the number of test cases.

Notes below a table list the cases that differ from TensorFlow on purpose or do not run on a
backend.

Random ops with a seed give TensorFlow's numbers, bit for bit, with these exceptions:

- The last bit of `float64` values may differ if they are computed with logarithms, sines or powers
  (normal, truncated normal, gamma). TensorFlow uses the functions of the C library, graphmill those
  of NumPy.
- `ParameterizedTruncatedNormal`, also the stateless op, draws the numbers that TensorFlow draws in
  one thread. If TensorFlow splits a large tensor among threads, its numbers depend on their count.
- `StochasticCastToInt` rounds with the same probabilities, but other random numbers. TensorFlow's
  depend on the processor and on the number of threads.
- `NegTrain` draws other negative samples. TensorFlow's are not reproducible.
- `RecordInput` and the noise of `ExtractGlimpse` draw other numbers. TensorFlow's are not
  reproducible, whatever the seed.

Candidate samplers, fractional pooling, distorted crops and binomial samples also give TensorFlow's
draws.

Ops without a kernel that graphs may contain are `CudnnRNNV3` and `CudnnRNNBackpropV3`, which
TensorFlow has only on GPUs, and some `Xla…` ops, which TensorFlow has only inside XLA. A function
that contains one of the `CudnnRNN…` ops runs as long as the op is not reached.

"""
WITHOUT_VALUES = {"variant", "resource"}


def page(host: Host) -> str:
    """Return the page."""
    cases = load_cases()
    types_of_cases = covered_types(cases, host.ops)
    by_op: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_op[case.op].append(case)
    families: dict[str, list[OpDef]] = defaultdict(list)
    registered = set(host.ops.names())
    for op in sorted(set(host.kernels.ops()) & registered):
        if not op.startswith("_") and ">" not in op:  # `>`: an op of an installed plugin
            families[host.ops.get(op).family].append(host.ops.get(op))
    total = sum(map(len, families.values()))
    parts = [HEAD, f"{total} ops, {len(cases)} cases.\n"]
    for family in sorted(families):
        parts.append(f"\n## {family}\n\n")
        parts.append("| op | types | backends | compiled | effects | cases |\n")
        parts.append("|---|---|---|---|---|---|\n")
        parts += [row(host, op, by_op[op.name], types_of_cases) for op in families[family]]
        notes: dict[str, list[str]] = defaultdict(list)
        for definition in families[family]:
            for text in differences(by_op[definition.name]):
                notes[text].append(f"`{definition.name}`")
        parts += ["\n"] if notes else []
        parts += [f"- {' '.join(names)}: {text}.\n" for text, names in notes.items()]
    return "".join(parts)


def row(host: Host, op: OpDef, cases: list[Case], types_of_cases: CoveredTypes) -> str:
    """Return the table row of an op."""
    on_numpy = [r.definition for r in host.kernels.registrations(op, ("numpy",))]
    on_jax = [r.definition for r in host.kernels.registrations(op, ("jax",))]
    lowered = [k for k in on_jax if not k.host and (k.keeps_variable or not k.stateful)]
    backends = " ".join(
        name for name, kernels in (("NumPy", on_numpy), ("JAX", lowered)) if kernels
    )
    is_compiled = any(k.is_traceable or k.keeps_variable for k in on_jax)
    compiled = "yes" if is_compiled else obstacle(on_numpy or on_jax)
    effects = " ".join(f"`{effect}`" for effect in sorted(effects_of(op)))
    cells = (
        f"`{op.name}`",
        types(op.name, types_of_cases),
        backends,
        compiled,
        effects,
        str(len(cases)),
    )
    return "| " + " | ".join(cells) + " |\n"


def obstacle(kernels: list[KernelDef]) -> str:
    """Return the reasons why no kernel can be traced."""
    reasons = {
        "waits": any(kernel.async_ for kernel in kernels),
        "state": any(kernel.stateful for kernel in kernels),
        "shape": any(kernel.dynamic_shape for kernel in kernels),
        "values": any(kernel.host for kernel in kernels),
    }
    return "no: " + ", ".join(reason for reason, holds in reasons.items() if holds)


def types(op: str, types_of_cases: CoveredTypes) -> str:
    """Return the element types that cases cover, by type attr."""
    cells = []
    for attr, names in cpu_types().get(op, {}).items():
        expected = [name for name in names if name not in WITHOUT_VALUES]
        missing = [name for name in expected if name not in types_of_cases[op][attr]]
        if not expected:
            continue
        covered = "all" if not missing else "all but " + " ".join(missing)
        if len(missing) > len(expected) // 2:
            covered = " ".join(sorted(types_of_cases[op][attr])) or "none"
        cells.append(f"{attr}: {covered}")
    return "; ".join(cells)


def differences(cases: list[Case]) -> list[str]:
    """Return the ways in which cases of an op differ from TensorFlow."""
    notes: dict[str, None] = {}
    for case in cases:
        if case.differs:
            notes[case.differs] = None
        for backend, reason in case.skip.items():
            notes[f"not run on {backend}: {reason}"] = None
        if case.close:
            notes[f"other tolerances: {case.close.why}"] = None
    return [" ".join(text.split()).rstrip(".") for text in notes]


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
