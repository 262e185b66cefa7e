"""Accumulators of gradients: dense ones with a reference or a handle, and sparse ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.testing.generators.session_programs.program import Step, Value
from graphmill.testing.generators.session_programs.resource import (
    Model,
    Outcome,
    Resource,
    chance,
    pick,
)

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser


class Accumulator(Resource):
    """A conditional accumulator of vectors of length 2, or of matrices with sparse rows."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.kind = pick(chooser, ("", "Resource", "Sparse"))
        self.reduction = pick(chooser, ("MEAN", "SUM"))

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of a gradient, a step and a number of gradients."""
        n = self.name
        made = {f"{n}_g": "float32", f"{n}_t": "int64", f"{n}_n": "int32"}
        return {**made, f"{n}_i": "int64", f"{n}_h": "int64"} if self.kind == "Sparse" else made

    def nodes(self) -> list[str]:
        """Return the accumulator and its ops."""
        n, is_sparse = self.name, self.kind == "Sparse"
        shared = "Resource" if self.kind == "Resource" else ""
        own = "Sparse" if is_sparse else shared
        shape = "[3, 2]" if is_sparse else "[2]"
        gradient = f"{n}_i, {n}_g, {n}_h, has_known_shape=True" if is_sparse else f"{n}_g"
        return [
            (
                f"{n} = {own}ConditionalAccumulator(dtype=float32, shape={shape},"
                f" reduction_type='{self.reduction}')"
            ),
            f"{n}_apply = {own}AccumulatorApplyGradient({n}, {n}_t, {gradient})",
            f"{n}_take = {own}AccumulatorTakeGradient({n}, {n}_n, dtype=float32)",
            f"{n}_count = {shared}AccumulatorNumAccumulated({n})",
            f"{n}_set = {shared}AccumulatorSetGlobalStep({n}, {n}_t)",
        ]

    def model(self) -> Model:
        """Return an empty accumulator."""
        return _AccumulatorModel()

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops; most often one that applies or takes a gradient."""
        n, which = self.name, chooser.integer(0, 11)
        step = chooser.integer(0, 3)
        if which < 6:
            return self._apply(chooser, step)
        if which < 9:
            count = chooser.integer(0, 3)
            outputs = 3 if self.kind == "Sparse" else 1
            feeds = ((f"{n}_n:0", Value("int32", count)),)
            fetches = tuple(f"{n}_take:{i}" for i in range(outputs))
            return Step(n, ("take", count), fetches, (), feeds)
        if which < 11:
            return Step(n, ("look",), (f"{n}_count:0",))
        return Step(n, ("set", step), (), (f"{n}_set",), ((f"{n}_t:0", Value("int64", step)),))

    def _apply(self, chooser: Chooser, step: int) -> Step:
        n = self.name
        wrong = chance(chooser, 10)
        feeds = [(f"{n}_t:0", Value("int64", step))]
        if self.kind == "Sparse":
            rows = sorted({chooser.integer(0, 2) for _ in range(2)})
            values: Any = [
                [float(chooser.integer(0, 9)) for _ in range(3 if wrong else 2)] for _ in rows
            ]
            feeds.append((f"{n}_i:0", Value("int64", rows)))
            feeds.append((f"{n}_h:0", Value("int64", [3, 3 if wrong else 2])))
        else:
            values = [float(chooser.integer(0, 9)) for _ in range(3 if wrong else 2)]
        feeds.append((f"{n}_g:0", Value("float32", values)))
        event: tuple[Any, ...] = ("wrong",) if wrong else ("apply", step)
        return Step(n, event, (), (f"{n}_apply",), tuple(feeds))


class _AccumulatorModel(Model):
    def __init__(self, count: int = 0, step: int = 0) -> None:
        self.count, self.step = count, step

    def copy(self) -> Model:
        return _AccumulatorModel(self.count, self.step)

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        kind, *rest = event
        if kind == "wrong":
            return Outcome.MAY_FAIL
        if kind == "apply" and rest[0] >= self.step:
            self.count += 1
        elif kind == "set":
            self.step = rest[0]
        elif kind == "take":
            if rest[0] < 1:
                return Outcome.MAY_FAIL
            if self.count < rest[0]:
                return Outcome.WAITS
            self.count = 0
            self.step += 1
        return Outcome.OK
