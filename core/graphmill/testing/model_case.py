"""Run whole models and compare with TensorFlow's results; each model is a folder.

A folder has `case.json` (what to feed, fetch and compare), `graph.pb` (a GraphDef) or
`saved_model/`, `feeds.npz` with arrays f0, f1 … and `expected.npz` with arrays e0, e1 …. With
several batches or steps the arrays have a leading axis for them, or if `ragged`, there is one array
per batch and step, `f0_1`, `e0_3`. A feed with a `path` instead of an array is a file name, in
which `{case}` stands for the folder and `{tmp}` for a scratch folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphmill.plugin.host import Host
    from graphmill.testing.case_inputs import Values


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a step: the problem or "", and the largest error relative to its tolerance."""

    problem: str
    worst: float


@dataclass(slots=True)
class ModelCase:
    """The case in a folder; `session` and `run_step` run it in graphmill."""

    folder: Path
    scratch: Path
    spec: dict[str, Any] = field(init=False)
    _feeds: dict[str, Values] = field(init=False)
    _expected: dict[str, Values] = field(init=False)

    def __post_init__(self) -> None:
        self.spec = json.loads((self.folder / "case.json").read_text("utf-8"))
        with np.load(self.folder / "feeds.npz") as archive:
            self._feeds = dict(archive)
        with np.load(self.folder / "expected.npz") as archive:
            self._expected = dict(archive)

    @property
    def name(self) -> str:
        """The name of the case."""
        return str(self.spec["name"])

    @property
    def steps(self) -> int:
        """The number of steps that have expected results."""
        return int(self.spec.get("steps") or 1)

    def session(self, host: Host | None = None, executor_type: str = "") -> Any:
        """Open the session and run the initial steps.

        Args:
            host: the host of the session; by default the default host.
            executor_type: the executor; a SavedModel always uses the default one.
        """
        if self.spec["kind"] == "saved_model":
            from graphmill.saved import saved_model

            tags = self.spec["saved_model"]["tags"]
            session = saved_model.load(str(self.folder / "saved_model"), tags=tags).session
        else:
            from graphmill.session.session import Session

            session = Session(
                graph=str(self.folder / "graph.pb"), config=self._config(executor_type), host=host
            )
        for run in self.spec.get("init") or ():
            feeds = {feed["name"]: self._given(feed) for feed in run.get("feeds") or ()}
            session.run([], feeds, targets=run["targets"])
        return session

    def run_step(self, session: Any, step: int) -> StepResult:
        """Run a step and compare its results."""
        results = session.run(
            list(self.spec["fetches"]), self.feeds(step), targets=self.spec.get("targets") or ()
        )
        return self.check(results, step)

    def feeds(self, step: int) -> dict[str, Values]:
        """Return the feeds of a step."""
        batches = int(self.spec.get("batches") or 1)
        batch = step % batches
        fed = {}
        for index, feed in enumerate(self.spec["feeds"]):
            if feed.get("path") is not None:
                fed[feed["name"]] = self._given(feed)
            elif self.spec.get("ragged"):
                fed[feed["name"]] = _native(self._feeds[f"f{index}_{batch}"], feed["dtype"])
            else:
                whole = self._feeds[f"f{index}"]
                fed[feed["name"]] = _native(whole[batch] if batches > 1 else whole, feed["dtype"])
        return fed

    def expected(self, step: int) -> list[Values]:
        """Return TensorFlow's results for a step."""
        count = len(self.spec["fetches"])
        if self.spec.get("ragged"):
            return [self._expected[f"e{index}_{step}"] for index in range(count)]
        values = [self._expected[f"e{index}"] for index in range(count)]
        return [np.asarray(e[step]) for e in values] if self.steps > 1 else values

    def check(self, results: list[Any], step: int) -> StepResult:
        """Compare results with TensorFlow's."""
        expected = self.expected(step)
        modes = self.spec.get("compare") or ["allclose"] * len(expected)
        worst = 0.0
        for name, mode, actual, reference in zip(
            self.spec["fetches"], modes, results, expected, strict=True
        ):
            problem, error = self._compare(np.asarray(actual), reference, mode)
            if problem:
                return StepResult(f"{name}: {problem}", error)
            worst = max(worst, error)
        return StepResult("", worst)

    def _compare(self, actual: Values, expected: Values, mode: str) -> tuple[str, float]:
        if actual.shape != expected.shape:
            return f"shape {actual.shape}, expected {expected.shape}", np.inf
        if mode == "shape":
            return "", 0.0
        if expected.dtype.kind in "SU":
            same = [bytes(x) for x in actual.ravel()] == [_bytes(x) for x in expected.ravel()]
            return ("" if same else "strings differ"), 0.0
        if actual.dtype != expected.dtype:
            return f"dtype {actual.dtype}, expected {expected.dtype}", np.inf
        if mode == "exact" or expected.dtype.kind in "iub":
            count = int(np.count_nonzero(actual != expected))
            return (f"{count} of {expected.size} values differ" if count else ""), 0.0
        wide = complex if expected.dtype.kind == "c" else float
        actual, expected = actual.astype(wide), expected.astype(wide)
        if mode == "stats":
            actual, expected = (np.array([x.mean(), x.std()]) for x in (actual, expected))
        return self._close(actual, expected)

    def _close(self, actual: Values, expected: Values) -> tuple[str, float]:
        finite = np.isfinite(expected)
        if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
            return "infinities or NaNs differ", np.inf
        bound = self.spec.get("atol", 1e-5) + self.spec.get("rtol", 1e-4) * np.abs(expected[finite])
        error = np.abs(actual[finite] - expected[finite])
        worst = float((error / bound).max(initial=0.0))
        ok = worst <= 1  # false for NaN
        return (
            "" if ok else f"largest error {error.max():.3g}, {worst:.3g} times the tolerance"
        ), worst

    def _given(self, feed: Mapping[str, Any]) -> Values:
        path = feed.get("path")
        if path is None:
            return _native(np.asarray(feed["value"]), feed["dtype"])
        name = path.replace("{case}", str(self.folder)).replace("{tmp}", str(self.scratch))
        return np.array(name.encode(), dtype=object)

    def _config(self, executor_type: str) -> Any:
        from graphmill import proto

        config = proto.ConfigProto()
        config.experimental.executor_type = executor_type
        for device, count in (self.spec.get("config") or {}).get("device_count", {}).items():
            config.device_count[device] = count
        return config


def model_folders(root: Path) -> list[Path]:
    """List the folders below `root` that have a case, sorted by name."""
    return sorted(path.parent for path in root.glob("*/case.json"))


def _native(values: Values, dtype: str) -> Values:
    if dtype != "string":
        return np.asarray(values, dtype)
    flat = [_bytes(x) for x in values.ravel().tolist()]
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(values.shape)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
