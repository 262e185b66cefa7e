"""Read a case: a folder with a graph or model, its feeds and TensorFlow's results.

`case.json` says what to feed, fetch and compare; `graph.pb` is a GraphDef, or `saved_model/` a
SavedModel; `feeds.npz` holds arrays f0, f1 … and `expected.npz` e0, e1 …. With several batches or
steps the arrays have a leading axis for them, or if `ragged`, there is one array for each batch
and step, `f0_1`, `e0_3`. A feed with a `path` is a file name, in which `{case}` stands for the
folder and `{tmp}` for a scratch folder.

Needs NumPy only: it is read in the processes of both systems, and neither pays for the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_RTOL, DEFAULT_ATOL = 1e-4, 1e-5


@dataclass(slots=True)
class CaseFolder:
    """One case; arrays are read on first use."""

    folder: Path
    scratch: Path
    spec: dict[str, Any] = field(init=False)
    _feeds: dict[str, Any] = field(init=False, default_factory=dict)
    _expected: dict[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.spec = json.loads((self.folder / "case.json").read_text("utf-8"))

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_saved_model(self) -> bool:
        return self.spec["kind"] == "saved_model"

    @property
    def model(self) -> Path:
        """The graph's file, or the SavedModel's folder."""
        return self.folder / ("saved_model" if self.is_saved_model else "graph.pb")

    @property
    def tags(self) -> list[str]:
        return list(self.spec["saved_model"]["tags"])

    @property
    def fetches(self) -> list[str]:
        return list(self.spec["fetches"])

    @property
    def targets(self) -> list[str]:
        return list(self.spec.get("targets") or ())

    @property
    def feed_names(self) -> list[str]:
        return [feed["name"] for feed in self.spec["feeds"]]

    @property
    def batches(self) -> int:
        return int(self.spec.get("batches") or 1)

    @property
    def steps(self) -> int:
        """The number of steps with expected results."""
        return int(self.spec.get("steps") or 1)

    @property
    def device_count(self) -> dict[str, int]:
        return dict((self.spec.get("config") or {}).get("device_count") or {})

    @property
    def init_runs(self) -> list[tuple[list[str], dict[str, Any]]]:
        """Targets and feeds of the runs before the first step."""
        return [
            (run["targets"], {feed["name"]: self._given(feed) for feed in run.get("feeds") or ()})
            for run in self.spec.get("init") or ()
        ]

    def feeds(self, step: int) -> list[Any]:
        """Return the feeds of a step, in the order of `feed_names`."""
        batch = step % self.batches
        values = []
        for index, feed in enumerate(self.spec["feeds"]):
            if feed.get("path") is not None:
                values.append(self._given(feed))
                continue
            if not self._feeds:
                self._feeds = _arrays(self.folder / "feeds.npz")
            if self.spec.get("ragged"):
                value = self._feeds[f"f{index}_{batch}"]
            else:
                whole = self._feeds[f"f{index}"]
                value = whole[batch] if self.batches > 1 else whole
            values.append(_native(value, feed["dtype"]))
        return values

    def expected(self, step: int) -> list[Any]:
        """Return TensorFlow's results of one of the first `steps` steps."""
        if not self._expected:
            self._expected = _arrays(self.folder / "expected.npz")
        count = len(self.fetches)
        if self.spec.get("ragged"):
            return [self._expected[f"e{index}_{step}"] for index in range(count)]
        arrays = [self._expected[f"e{index}"] for index in range(count)]
        return [np.asarray(e[step]) for e in arrays] if self.steps > 1 else arrays

    def check(self, results: list[Any], step: int) -> tuple[float, str]:
        """Return the largest error relative to its tolerance, and the problem or ""."""
        modes = self.spec.get("compare") or ["allclose"] * len(self.fetches)
        rtol, atol = self.spec.get("rtol", DEFAULT_RTOL), self.spec.get("atol", DEFAULT_ATOL)
        worst = 0.0
        if len(results) != len(self.fetches):
            return np.inf, f"{len(results)} results, expected {len(self.fetches)}"
        for name, mode, actual, expected in zip(
            self.fetches, modes, results, self.expected(step), strict=True
        ):
            error, problem = compare(np.asarray(actual), expected, mode, rtol, atol)
            if problem:
                return error, f"{name}: {problem}"
            worst = max(worst, error)
        return worst, ""

    def _given(self, feed: dict[str, Any]) -> Any:
        path = feed.get("path")
        if path is None:
            return _native(np.asarray(feed["value"]), feed["dtype"])
        name = path.replace("{case}", str(self.folder)).replace("{tmp}", str(self.scratch))
        return np.array(name.encode(), dtype=object)


def case_folders(roots: list[Path]) -> list[Path]:
    """Return the folders of all cases below some folders, sorted by name."""
    found = {
        path.parent
        for root in roots
        for path in (*root.glob("case.json"), *root.glob("*/case.json"))
    }
    return sorted(found, key=lambda folder: folder.name)


def write_case(folder: Path, spec: dict[str, Any], feeds: list[Any], expected: list[Any]) -> None:
    """Write the files that `CaseFolder` reads, except the model."""
    (folder / "case.json").write_text(json.dumps(spec, indent=1) + "\n", "utf-8")
    np.savez(folder / "feeds.npz", **{f"f{i}": _storable(a) for i, a in enumerate(feeds)})
    np.savez(folder / "expected.npz", **{f"e{i}": _storable(a) for i, a in enumerate(expected)})


def _arrays(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def _storable(array: Any) -> Any:
    array = np.asarray(array)
    return array.astype(np.bytes_) if array.dtype == object else array


def _native(values: Any, dtype: str) -> Any:
    if dtype != "string":
        return np.asarray(values, dtype)
    flat = [x if isinstance(x, bytes) else str(x).encode() for x in values.ravel().tolist()]
    out = np.empty(len(flat), dtype=object)
    out[:] = flat
    return out.reshape(values.shape)
