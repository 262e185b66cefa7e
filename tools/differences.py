"""The page docs/explanation/differences.md, from what the op cases give here and gave TensorFlow.

`tools/make_op_reference.py` writes it, or checks it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill.testing.case import load_cases
from graphmill.testing.golden import stored_answers
from graphmill.testing.runners.kernel_runner import NotApplicableError
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.golden import Answer

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "differences.md"
HEAD = """\
# Differences from TensorFlow

<!-- Made by tools/make_op_reference.py from the op cases; edit those, or tools/differences.py. -->

For people who move a model from TensorFlow, and for contributors. After this page you know
every result that differs on purpose, and what is not supported, op by op.

TensorFlow is the referee: each op is asked thousands of questions whose answers TensorFlow gave,
on every backend (`tests/conformance`), and random graphs are compared with it live (`tox -e
oracle`). What follows is all that differs, from the results of these tests; a difference that is
not here fails one.

## By decision

- A value is never written in place
  ([0008](../decisions/0008-values-are-never-written-in-place.md)), so a fetched array is the
  caller's own.
- One event loop drives a step ([0007](../decisions/0007-one-event-loop-for-a-step.md)); results
  of a step do not depend on threads.
- Where a graph does not say whether a variable is read or written first, what waits for nothing
  but the variable reads first, always. TensorFlow does so in practice, and promises nothing.
- A step that can make no more progress fails and names what waits, where TensorFlow would hang.
- A second send under one rendezvous key is an error, as in TensorFlow 1.0.
- A worker aborts a receive for a step that has ended; in TensorFlow it waits for its caller's
  deadline. A graph whose ops are not all here is refused when it is registered, with UNIMPLEMENTED
  and their names. Of more than 256 graphs of a session those that were not run for an hour go.
- `PyFunc` names its function by an entry point ([how](../howto/op.md#call-a-python-function)),
  where TensorFlow has a number that means something in one process.
- What is inside of a loop is neither fed nor fetched, and the error says why.
- An op that fails changes nothing; TensorFlow has made the updates before the one that is wrong.
- A resource variable without a value is `NotFound` to optimizers, as it is to a read; TensorFlow
  reports `Internal` there.
- A table gives its keys in the order in which they came, TensorFlow in that of a hash. The bucket
  of a key that was removed from a dense table is empty; TensorFlow leaves the deleted key in it.
- What was read from a reference variable is what it held then. In TensorFlow the value read shares
  the variable's memory, so that a fetched one may show an update of the same step that came later.
- A dataset of files that could not open one of them goes on with the next one when it is asked
  again; TensorFlow tries the same file for ever, and `ignore_errors` never ends.
- Ranks and element types that TensorFlow's kernels leave out are taken: `Pad` beyond rank 6,
  `ReverseV2` and `Where` beyond rank 8, `Tile` of quantized numbers, `Cast` to eight-bit floats.
- Where TensorFlow looks at no shape, index or option and reads what lies beyond (gradients of
  pools, updates of variables, rows of sparse tensors, unknown modes of
  `ImageProjectiveTransformV3`), the answer is `InvalidArgument`. What it leaves in memory as it was
  is zero.
- Boxes of one score keep their order in `CombinedNonMaxSuppression`; TensorFlow's sort does not
  keep it.

## By rounding

Results may differ by what `core/graphmill/testing/tolerances.toml` allows, in units of the type's
epsilon, with a justification for each group of ops. TensorFlow's threads take numbers below the
smallest normal one for zero, NumPy does not: quotients so small are rounded down here. Random ops
with a seed give TensorFlow's own numbers; [the page of ops](../reference/ops.md) tells of the few
that differ in the last bit.

Means, norms and products of `float16` are made in `float32`, TensorFlow makes them in `float16`,
where a sum beyond 65504 is infinite. `Unique` takes the two zeros of narrow floats for one. Where
nan and infinity meet in a sum, a product of matrices or an extremum, which of them is left depends
on the order and the width of vectors; `ReluGrad` and its like multiply, so that nan stays nan.

Singular vectors and eigenvectors are determined up to their sign (or phase), and need not have
TensorFlow's; eigenvalues of real matrices that are not symmetric need not come in its order. Pixels
of a JPEG may differ by a step or two, since Pillow computes the cosine transform accurately and
TensorFlow fast; the bytes of an encoded PNG depend on the version of zlib, its pixels do not.

Rounding grows where a result is a small difference of large numbers (the gradient of a bias before
a batch normalisation is zero but for rounding, and Adam makes steps of full size of it), or where a
gradient is cut at zero (`Relu6Grad` of a value that is zero but for rounding). TensorFlow differs
from itself as much there when its input changes by the last bit.

## Other answers

Questions that TensorFlow and graphmill answer differently, on purpose.

| ops | TensorFlow | graphmill | why |
|---|---|---|---|
"""
SKIPPED = """
## Compiled code

What XLA answers otherwise than the same op interpreted, or cannot be asked.

| ops | where | why |
|---|---|---|
"""
MISSING = """
## Ops without a kernel

A graph that needs one of these is refused before it runs, with all that are missing named at
once; a plugin may [bring one](../howto/kernel.md).

"""


def page(host: Host) -> str:
    """Return the page."""
    return "".join([HEAD, *other_answers(host), SKIPPED, *compiled(), MISSING, *missing(host)])


def other_answers(host: Host) -> list[str]:
    """Return a row for each group of cases that differ for one reason."""
    runner = SessionRunner(host)
    ops: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for case in load_cases():
        if not case.differs:
            continue
        theirs = stored_answers(case.stem)[case.id].answer
        try:
            ours = runner.run(case)
        except NotApplicableError:
            continue
        ops[told(theirs), told(ours), plain(case.differs)].add(case.op)
    return [
        f"| {names(found)} | {theirs} | {ours} | {why} |\n"
        for (theirs, ours, why), found in sorted(ops.items(), key=lambda item: min(item[1]))
    ]


def compiled() -> list[str]:
    """Return a row for each reason why cases are not asked of compiled code."""
    ops: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in load_cases():
        for backend, reason in case.skip.items():
            ops[plain(reason), backend].add(case.op)
    return [
        f"| {names(found)} | {backend} | {reason} |\n"
        for (reason, backend), found in sorted(ops.items())
    ]


def missing(host: Host) -> list[str]:
    """Return a line for each family that has ops without a kernel."""
    known = set(host.kernels.ops())
    families: dict[str, set[str]] = defaultdict(set)
    for name in host.ops.names():
        if name not in known and not name.startswith("_"):
            families[host.ops.get(name).family].add(name)
    return [f"- **{family}**: {names(found)}\n" for family, found in sorted(families.items())]


def told(answer: Answer | NotApplicableError) -> str:
    """Return an answer in a word."""
    error = getattr(answer, "error", "")
    return f"`{error}`" if error else "a value"


def plain(text: str) -> str:
    """Return a reason on one line, without a period."""
    return " ".join(text.split()).rstrip(".").replace("|", "\\|")


def names(ops: set[str]) -> str:
    """Return names in order."""
    return " ".join(f"`{op}`" for op in sorted(ops))
