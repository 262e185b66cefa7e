"""Staging areas: FIFO ones, and maps with and without an order."""

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


class StagingArea(Resource):
    """A staging area with first-in, first-out order, used by `Stage` and `Unstage`."""

    can_time_out = False

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.capacity = chooser.integer(0, 3)

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of the values and an index."""
        return {f"{self.name}_x": "float32", f"{self.name}_s": "string", f"{self.name}_i": "int32"}

    def nodes(self) -> list[str]:
        """Return the ops of the area."""
        n = self.name
        same = f"dtypes=[float32, string], capacity={self.capacity}, shared_name='{n}'"
        return [
            f"{n}_put = Stage([{n}_x, {n}_s], {same})",
            f"{n}_get = Unstage({same})",
            f"{n}_peek = StagePeek({n}_i, {same})",
            f"{n}_size = StageSize({same})",
            f"{n}_clear = StageClear({same})",
        ]

    def model(self) -> Model:
        """Return an empty area."""
        return _StageModel(self.capacity)

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops; most often one that puts or gets an element."""
        n, which = self.name, chooser.integer(0, 11)
        if which < 5:
            value = Value("float32", [chooser.integer(0, 9)] * chooser.integer(0, 2))
            word = Value("string", b"w%d" % chooser.integer(0, 9))
            feeds = ((f"{n}_x:0", value), (f"{n}_s:0", word))
            return Step(n, ("put",), (), (f"{n}_put",), feeds)
        if which < 8:
            return Step(n, ("get",), (f"{n}_get:0", f"{n}_get:1"))
        if which == 8:
            index = chooser.integer(0, 2)
            feed = ((f"{n}_i:0", Value("int32", index)),)
            return Step(n, ("peek", index), (f"{n}_peek:0", f"{n}_peek:1"), (), feed)
        if which < 11:
            return Step(n, ("look",), (f"{n}_size:0",))
        return Step(n, ("clear",), (), (f"{n}_clear",))


class _StageModel(Model):
    def __init__(self, capacity: int, size: int = 0) -> None:
        self.capacity, self.size = capacity, size

    def copy(self) -> Model:
        return _StageModel(self.capacity, self.size)

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        kind = event[0]
        if kind == "put":
            if self.capacity and self.size >= self.capacity:
                return Outcome.WAITS
            self.size += 1
        elif kind == "get":
            if not self.size:
                return Outcome.WAITS
            self.size -= 1
        elif kind == "peek":
            return Outcome.OK if event[1] < self.size else Outcome.WAITS
        elif kind == "clear":
            self.size = 0
        return Outcome.OK


class MapStagingArea(Resource):
    """A staging area with keys, used by `MapStage` and `MapUnstage` or their ordered forms."""

    can_time_out = False

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.is_ordered = chance(chooser, 2)
        self.capacity = pick(chooser, (0, 0, 2, 3))

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of a key and the values."""
        return {f"{self.name}_k": "int64", f"{self.name}_x": "float32", f"{self.name}_s": "string"}

    def nodes(self) -> list[str]:
        """Return the ops of the area."""
        n, op = self.name, "OrderedMap" if self.is_ordered else "Map"
        same = f"dtypes=[float32, string], capacity={self.capacity}, shared_name='{n}'"
        return [
            f"{n}_both = Const(dtype=int32, value='int32: [0, 1]')",
            f"{n}_first = Const(dtype=int32, value='int32: [0]')",
            f"{n}_second = Const(dtype=int32, value='int32: [1]')",
            f"{n}_put = {op}Stage({n}_k, {n}_both, [{n}_x, {n}_s], {same})",
            f"{n}_put0 = {op}Stage({n}_k, {n}_first, [{n}_x], {same})",
            f"{n}_put1 = {op}Stage({n}_k, {n}_second, [{n}_s], {same})",
            f"{n}_get = {op}Unstage({n}_k, {n}_both, {same})",
            f"{n}_any = {op}UnstageNoKey({n}_both, {same})",
            f"{n}_peek = {op}Peek({n}_k, {n}_both, {same})",
            f"{n}_size = {op}Size({same})",
            f"{n}_open = {op}IncompleteSize({same})",
            f"{n}_clear = {op}Clear({same})",
        ]

    def model(self) -> Model:
        """Return an empty area."""
        return _MapModel(self.is_ordered, self.capacity)

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops; most often one that puts or gets an element."""
        n, which, key = self.name, chooser.integer(0, 14), chooser.integer(0, 3)
        keyed = (f"{n}_k:0", Value("int64", key))
        if which < 6:
            part = pick(chooser, ("", "", "0", "1"))
            return self._put(chooser, part, key, keyed)
        if which < 10:
            how = pick(chooser, ("get", "get", "peek"))
            return Step(n, (how, key), (f"{n}_{how}:0", f"{n}_{how}:1"), (), (keyed,))
        if which < 12:
            return Step(n, ("any",), tuple(f"{n}_any:{i}" for i in range(3)))
        if which < 14:
            return Step(n, ("look",), (f"{n}_size:0", f"{n}_open:0"))
        return Step(n, ("clear",), (), (f"{n}_clear",))

    def _put(self, chooser: Chooser, part: str, key: int, keyed: tuple[str, Value]) -> Step:
        n = self.name
        feeds = [keyed]
        if part in ("", "0"):
            feeds.append((f"{n}_x:0", Value("float32", chooser.integer(0, 9))))
        if part in ("", "1"):
            feeds.append((f"{n}_s:0", Value("string", b"w%d" % chooser.integer(0, 9))))
        return Step(n, ("put", key, part), (), (f"{n}_put{part}",), tuple(feeds))


class _MapModel(Model):
    def __init__(self, is_ordered: bool, capacity: int) -> None:
        self.is_ordered, self.capacity = is_ordered, capacity
        self.whole: set[int] = set()
        self.parts: dict[int, set[str]] = {}

    def copy(self) -> Model:
        copied = _MapModel(self.is_ordered, self.capacity)
        copied.whole = set(self.whole)
        copied.parts = {key: set(parts) for key, parts in self.parts.items()}
        return copied

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        kind, *rest = event
        if kind == "put":
            return self._put(*rest)
        if kind == "clear":
            self.whole.clear()
            self.parts.clear()
        elif kind == "any":
            if not self.whole:
                return Outcome.WAITS
            if not self.is_ordered and len(self.whole) > 1:
                return Outcome.UNDEFINED  # the order of a hash table
            self.whole.remove(min(self.whole))
        elif kind in ("get", "peek"):
            if rest[0] not in self.whole:
                return Outcome.WAITS
            if kind == "get":
                self.whole.remove(rest[0])
        return Outcome.OK

    def _put(self, key: int, part: str) -> Outcome:
        if key in self.whole or part in self.parts.get(key, ()):
            # TensorFlow waits for a place before it refuses a key that it has.
            return Outcome.UNDEFINED if part or self._is_full() else Outcome.MAY_FAIL
        if not part:
            if key in self.parts:
                return Outcome.UNDEFINED
            return self._complete(key)
        if len(self.parts.get(key, ())) == 1:
            outcome = self._complete(key)
            if outcome is Outcome.OK:
                del self.parts[key]
            return Outcome.UNDEFINED if outcome is Outcome.WAITS else outcome
        self.parts.setdefault(key, set()).add(part)
        return Outcome.OK

    def _complete(self, key: int) -> Outcome:
        if self._is_full():
            return Outcome.WAITS
        self.whole.add(key)
        return Outcome.OK

    def _is_full(self) -> bool:
        return 0 < self.capacity <= len(self.whole)
