"""`SignatureTable`: which signatures of a cluster have a compiled form, or wait for one.

Programs take memory and time to compile, so only so many signatures have one. A signature that
comes when all places are taken is interpreted; if it comes much more often than one of those that
have a place, it gets that place. What comes once only never does, nor do signatures that take
turns: each compilation is paid for by as many calls.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE
from graphmill_plugins.jit.call_times import CallTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from graphmill.explain.compilation import SignatureRecord
    from graphmill_plugins.jit.programs.compiler import CompiledCluster

MOST_COMPILED: Final = 16
_MOST_KEPT: Final = 4 * MOST_COMPILED
_CALLS_FOR_A_PLACE: Final = 64
_CALLS_TO_NEXT_TRIAL: Final = (256, 4096)
_MOST_FAILED: Final = 32  # calls whose checks fail before the interpreter is asked at once …
_CALLS_SKIPPED: Final = 4096  # … for so many
EVICTED: Final = "another signature, which came more often, has its place"


class Entry:
    """One signature: its tier, what was measured, and how many calls it is away from a compiler.

    Attributes:
        record: what becomes of it, for `explain`; refused ones share one.
        key: of its inputs.
        compiled: its program.
        straight_times, compiled_times: of its calls, until one tier is chosen.
        is_judged: whether one is.
        calls_left: how many calls until it is compiled; 0 if it is not to be, or is being.
        waits: whether the compiled form waits for a trial: while nothing else is compiled, and
            after so many calls.
        skips: how many calls these still are.
        losses: how often the compiled form was slower in a trial.
        looked_at: how many calls had failed and held when it last was made to wait for failing.
        is_refused: whether all places were taken when it came.
        calls: how many came of a refused one since others' calls were last looked at.
        others: how many calls each one with a place had had by then.
    """

    __slots__ = (
        *("calls", "calls_left", "compiled", "compiled_times", "is_judged", "is_refused"),
        *("key", "looked_at", "losses", "others", "record", "skips", "straight_times", "waits"),
    )

    def __init__(self, record: SignatureRecord, key: Hashable) -> None:
        self.record = record
        self.key = key
        self.compiled: CompiledCluster | None = None
        self.straight_times, self.compiled_times = CallTimes(), CallTimes()
        self.is_judged = False
        self.calls_left = 0
        self.waits = False
        self.skips = 0
        self.losses = 0
        self.looked_at = (0, 0)
        self.is_refused = False
        self.calls = 0
        self.others: dict[Entry, int] = {}

    def give_up(self, reason: str) -> None:
        """Go back to straight-line code."""
        self.compiled = None
        self.record.tier = STRAIGHT_LINE
        self.record.reason = reason

    def lose(self, reason: str) -> None:
        """Go back to straight-line code as the faster form: for a while, and then for good.

        A trial is a few calls, in which something else may have had the processors.
        """
        self.losses += 1
        if self.losses > len(_CALLS_TO_NEXT_TRIAL):
            self.is_judged = True
            self.give_up(reason)
            return
        self.waits, self.skips = True, _CALLS_TO_NEXT_TRIAL[self.losses - 1]
        self.straight_times = CallTimes()
        self.record.tier = STRAIGHT_LINE
        self.record.reason = f"{reason}; it is tried again after {self.skips} calls"

    def compete(self) -> None:
        """Let the compiled form have its trial, or serve again."""
        self.compiled_times = CallTimes()
        self.waits = False
        self.record.tier, self.record.reason = COMPILED, ""

    def note_failed(self) -> None:
        """Note that checks failed; where they do so in most calls, have the interpreter asked."""
        record = self.record
        record.num_checks_failed += 1
        failed, held = record.num_checks_failed, record.num_compiled
        if failed - self.looked_at[0] >= max(_MOST_FAILED, held - self.looked_at[1]):
            self.looked_at = failed, held
            self.waits, self.skips = True, _CALLS_SKIPPED
            record.reason = (
                f"its checks failed in {failed} calls and held in {held}: the interpreter, which "
                f"had to do these calls too, does the next {_CALLS_SKIPPED} alone"
            )

    @property
    def all_calls(self) -> int:
        """How many calls came of one that has a place."""
        return self.record.num_compiled + self.record.num_straight


class SignatureTable:
    """The signatures of one cluster.

    Threads: `lock` guards the table for writing; `get` takes none.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._entries: dict[Hashable, Entry] = {}
        self.get = self._entries.get

    def is_full(self) -> bool:
        """Return whether all places are taken. Under the lock."""
        taken = sum(entry.record.is_wanted for entry in self._entries.values())
        return taken >= MOST_COMPILED

    def add(self, entry: Entry) -> None:
        """Keep a new entry; refused ones that came least often make room. Under the lock."""
        entries = self._entries
        if len(entries) >= _MOST_KEPT:
            refused = [one for one in entries.values() if one.is_refused]
            refused.sort(key=lambda one: one.calls)
            for one in refused[: (len(refused) + 1) // 2]:
                del entries[one.key]
        if len(entries) < _MOST_KEPT:
            entries[entry.key] = entry

    def replace(self, entry: Entry, is_narrower: Callable[[Hashable], bool]) -> Entry:
        """Keep an entry unless there is one of its key; return the one that is kept.

        Args:
            entry: the new one.
            is_narrower: tells of a key whether inputs are not told apart by it any more.
        """
        with self.lock:
            for key in [key for key in self._entries if is_narrower(key)]:
                del self._entries[key]
            return self._entries.setdefault(entry.key, entry)

    def claim(self, entry: Entry) -> bool:
        """Count a call of a refused entry; return whether it gets the place of another one.

        It is a new one then, which needs a record of its own.
        """
        entry.calls += 1
        if 1 < entry.calls < _CALLS_FOR_A_PLACE:
            return False
        with self.lock:
            if not entry.is_refused:
                return False  # another thread was first
            last = self._seldom_called(entry) if entry.calls > 1 else None
            if last is None:
                entry.calls = 1  # counted anew
                entry.others = {one: one.all_calls for one in self._holders()}
                return False
            last.give_up(EVICTED)
            last.record.is_wanted = False
            del self._entries[last.key]
            entry.is_refused, entry.others = False, {}
            self._entries[entry.key] = entry
        return True

    def _holders(self) -> list[Entry]:
        return [one for one in self._entries.values() if one.compiled is not None]

    def _seldom_called(self, entry: Entry) -> Entry | None:
        """Return the one with a place that came least since, if that is half as often at most."""
        since = {
            one: one.all_calls - entry.others[one] for one in self._holders() if one in entry.others
        }
        last = min(since, key=lambda one: since[one], default=None)
        return None if last is None or entry.calls < 2 * since[last] else last
