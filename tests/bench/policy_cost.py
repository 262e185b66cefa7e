"""Measure the cost of access rules for loaded models: loading a model, and one of its steps.

    python tests/bench/policy_cost.py [MODEL] [--loads N] [--steps N]

The same model is loaded and run alternately under the policy *pure* and trusted. Each figure is the
median of the ratios of adjacent rounds, of wall time and of the thread's own time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill import saved_model

if TYPE_CHECKING:
    from collections.abc import Callable

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "saved_model_tf2"
WARM_UP = 0.2
"""Share of the rounds that are not counted."""


class Times(NamedTuple):
    """The wall time of one call, and the processor time of the calling thread, in seconds."""

    wall: float
    thread: float


def timed(call: Callable[[], object]) -> Times:
    """Return the times of a call."""
    wall, thread = time.perf_counter(), time.thread_time()
    call()
    return Times(time.perf_counter() - wall, time.thread_time() - thread)


def compare(
    name: str, count: int, trusted: Callable[[], object], pure: Callable[[], object]
) -> None:
    """Run two calls alternately, each first in every other round; print medians."""
    times: dict[bool, list[Times]] = {True: [], False: []}
    for turn in range(count + int(count * WARM_UP)):
        for is_pure in (False, True) if turn % 2 else (True, False):
            times[is_pure].append(timed(pure if is_pure else trusted))
    pairs = list(zip(times[False], times[True], strict=True))[-count:]
    for kind in Times._fields:
        before = statistics.median(getattr(one, kind) for one, _ in pairs)
        ratio = statistics.median(getattr(b, kind) / getattr(a, kind) for a, b in pairs)
        print(f"{name}, {kind}: trusted {before * 1e3:.3f} ms, pure {100 * (ratio - 1):+.2f} %")


def load(model: Path, *, trust: bool) -> None:
    """Load a model and close it."""
    saved_model.load(model, trust=trust).close()


def main() -> None:
    """Measure a model whose default signature takes one image; by default that of the example."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, default=DIGITS)
    parser.add_argument("--loads", type=int, default=200)
    parser.add_argument("--steps", type=int, default=5_000)
    options = parser.parse_args()
    model, image = options.model, np.zeros((1, 8, 8, 1), np.float32)
    compare(
        "load",
        options.loads,
        lambda: load(model, trust=True),
        lambda: load(model, trust=False),
    )
    with (
        saved_model.load(model, trust=True) as trusted,
        saved_model.load(model, trust=False) as pure,
    ):
        run_trusted = trusted.signatures["serving_default"]
        run_pure = pure.signatures["serving_default"]
        compare("step", options.steps, lambda: run_trusted(image), lambda: run_pure(image))


if __name__ == "__main__":
    main()
