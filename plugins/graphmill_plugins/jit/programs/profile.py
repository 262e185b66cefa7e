"""`Profile`: run a function in a profile of JAX's profiler, and read the operations that ran.

The profiler has one profile at a time in a process, so a profile is refused while another runs.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.spi.process import fork_safe_lock, warnings_ignored
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK: Final = fork_safe_lock()
_BUSY: Final = "another cluster was being measured"
_END: Final = "end: "  # begins the names of events that only mark the end of an operation


class OperationRun(NamedTuple):
    """One run of an operation of a compiled program."""

    operation: str
    run_id: Any
    """The run of the program; None where the profiler does not number them."""
    nanoseconds: float


class Profile:
    """A profile from `start` to `stop`.

    Threads: any may try to start one; only one does.

    Attributes:
        why_not: why there is no profile; empty if there is one.
    """

    def __init__(self) -> None:
        self.why_not = ""
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> None:
        """Start it unless that is impossible; see `why_not`."""
        if not _LOCK.acquire(blocking=False):
            self.why_not = _BUSY
            return
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="graphmill-profile-")
            jax_module().profiler.start_trace(self._folder.name)
        except (OSError, RuntimeError) as error:  # no folder may be made, or a profile is running
            self.why_not = f"{type(error).__name__}: {error}"
            self._end()
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Stop it if it was started."""
        if not self.why_not:
            jax_module().profiler.stop_trace()

    def close(self) -> None:
        """Remove its files, so that another may start."""
        if self._folder is not None:
            self._end()

    def runs(self, module: str) -> list[OperationRun]:
        """Return the runs of the operations of a program, by its name; call it after `stop`."""
        assert self._folder is not None
        files = Path(self._folder.name).rglob("*.xplane.pb")
        return [run for file in files for run in _runs(file, module)]

    def _end(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        _LOCK.release()


def _runs(file: Path, module: str) -> Iterator[OperationRun]:
    with warnings_ignored():  # of the profiler's own types
        data = jax_module().profiler.ProfileData.from_file(str(file))
        for plane in data.planes:
            for line in plane.lines:
                for event in line.events:
                    stats = dict(event.stats)
                    if stats.get("hlo_module") == module and not event.name.startswith(_END):
                        operation = stats["hlo_op"]
                        yield OperationRun(operation, stats.get("run_id"), event.duration_ns)
