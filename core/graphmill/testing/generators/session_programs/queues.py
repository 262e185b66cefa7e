"""Queues and barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

_KINDS: Final = ("FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue", "PriorityQueue")
_DTYPES: Final = ("float32", "int32", "int64", "string", "float64")
_MAX_DEQUEUED: Final = 3


class Queue(Resource):
    """A queue of one or two components, with a handle or a reference."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.kind = pick(chooser, _KINDS)
        self.is_ref = self.kind != "PriorityQueue" and chance(chooser, 4)
        self.dtypes = [pick(chooser, _DTYPES) for _ in range(chooser.integer(1, 2))]
        self.capacity = chooser.integer(2, 5)
        self.kept = chooser.integer(0, 1) if self.kind == "RandomShuffleQueue" else 0
        self.seeds = (chooser.integer(0, 3), chooser.integer(1, 3))  # 0, 0: any numbers
        self.length = pick(chooser, (None, 2))
        self.has_shapes = self.kind in ("PaddingFIFOQueue", "PriorityQueue") or chance(chooser, 2)
        self._count = 0

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of one value, several values, and a number of elements."""
        by_name = {f"{self.name}_x{i}": dtype for i, dtype in enumerate(self.dtypes)}
        if self.kind == "PriorityQueue":
            by_name[f"{self.name}_p"] = "int64"
        return {**by_name, f"{self.name}_n": "int32"}

    def nodes(self) -> list[str]:
        """Return the queue and its ops."""
        n, v = self.name, "" if self.is_ref else "V2"
        size = "[]" if self.length is None else f"[{self.length}]"
        if self.kind == "PaddingFIFOQueue":
            size = "[-1]"
        extra = ""
        if self.has_shapes:
            extra += f", shapes=[{', '.join(size for _ in self.dtypes)}]"
        if self.kind == "RandomShuffleQueue":
            first, second = self.seeds
            extra += f", min_after_dequeue={self.kept}, seed={first}, seed2={second}"
        own = [*self.dtypes]
        components = [f"{n}_x{i}" for i in range(len(own))]
        if self.kind == "PriorityQueue":
            own, components = ["int64", *own], [f"{n}_p", *components]
        types, values = ", ".join(own), ", ".join(components)
        own_types = ", ".join(self.dtypes)
        options = f"component_types=[{own_types}], capacity={self.capacity}{extra}"
        return [
            f"{n} = {self.kind}{v}({options})",
            f"{n}_put = QueueEnqueue{v}({n}, [{values}])",
            f"{n}_puts = QueueEnqueueMany{v}({n}, [{values}])",
            f"{n}_get = QueueDequeue{v}({n}, component_types=[{types}])",
            f"{n}_gets = QueueDequeueMany{v}({n}, {n}_n, component_types=[{types}])",
            f"{n}_upto = QueueDequeueUpTo{v}({n}, {n}_n, component_types=[{types}])",
            f"{n}_size = QueueSize{v}({n})",
            *([] if self.is_ref else [f"{n}_shut = QueueIsClosedV2({n})"]),
            f"{n}_close = QueueClose{v}({n})",
            f"{n}_cancel = QueueClose{v}({n}, cancel_pending_enqueues=True)",
        ]

    def model(self) -> Model:
        """Return an empty queue."""
        return _QueueModel(self.capacity, self.kept, loses_rest=self.kind == "PriorityQueue")

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops; most often one that puts or gets an element."""
        n = self.name
        which = chooser.integer(0, 19)
        outputs = len(self.dtypes) + (self.kind == "PriorityQueue")
        if which < 7:
            return self._put(chooser)
        if which < 9:
            return self._puts(chooser)
        if which < 13:
            return Step(n, ("get", 1), self._outputs("get", outputs))
        if which < 16:
            how = pick(chooser, ("gets", "upto"))
            count = chooser.integer(0, _MAX_DEQUEUED)
            feeds = ((f"{n}_n:0", Value("int32", count)),)
            event = (how, count) if self.has_shapes else ("wrong",)
            return Step(n, event, self._outputs(how, outputs), (), feeds)
        if which < 18 or self.is_ref:
            return Step(n, ("look",), (f"{n}_size:0",))
        if which == 18:
            return Step(n, ("look",), (f"{n}_shut:0",))
        how = pick(chooser, ("close", "cancel"))
        return Step(n, (how,), (), (f"{n}_{how}",))

    def _outputs(self, node: str, count: int) -> tuple[str, ...]:
        return tuple(f"{self.name}_{node}:{i}" for i in range(count))

    def _put(self, chooser: Chooser) -> Step:
        wrong = self.has_shapes and chance(chooser, 12)
        length = self._length(chooser)
        feeds = [
            (f"{self.name}_x{i}:0", self._value(chooser, dtype, wrong, length))
            for i, dtype in enumerate(self.dtypes)
        ]
        if self.kind == "PriorityQueue":
            feeds.append((f"{self.name}_p:0", Value("int64", self._priority(chooser))))
        event = ("wrong",) if wrong else ("put", 1)
        return Step(self.name, event, (), (f"{self.name}_put",), tuple(feeds))

    def _puts(self, chooser: Chooser) -> Step:
        count = chooser.integer(0, 3)
        length = self._length(chooser)
        feeds = []
        for i, dtype in enumerate(self.dtypes):
            rows = [self._value(chooser, dtype, False, length).items for _ in range(count)]
            feeds.append((f"{self.name}_x{i}:0", Value(dtype, rows)))
        if self.kind == "PriorityQueue":
            ranks = [self._priority(chooser) for _ in range(count)]
            feeds.append((f"{self.name}_p:0", Value("int64", ranks)))
        event = ("put", count) if count or length is None else ("undefined",)
        return Step(self.name, event, (), (f"{self.name}_puts",), tuple(feeds))

    def _priority(self, chooser: Chooser) -> int:
        """Return a priority that no other element has, because equal ones have no defined order."""
        self._count += 1
        return chooser.integer(-3, 3) * 1000 + self._count

    def _length(self, chooser: Chooser) -> int | None:
        return chooser.integer(1, 3) if self.kind == "PaddingFIFOQueue" else self.length

    def _value(self, chooser: Chooser, dtype: str, wrong: bool, length: int | None) -> Value:
        if wrong:
            return Value(dtype, [[scalar(chooser, dtype)] * 3] * 2)
        if length is None:
            return Value(dtype, scalar(chooser, dtype))
        return Value(dtype, [scalar(chooser, dtype) for _ in range(length)])


def scalar(chooser: Chooser, dtype: str) -> Any:
    """Draw a value of a dtype."""
    number = chooser.integer(-9, 99)
    if dtype == "string":
        return f"s{number}".encode()
    return number / 2 if dtype.startswith("float") else number


class _QueueModel(Model):
    def __init__(self, capacity: int, kept: int, *, loses_rest: bool) -> None:
        self.capacity, self.kept, self.loses_rest = capacity, kept, loses_rest
        self.size = 0
        self.closed = False

    def copy(self) -> Model:
        made = _QueueModel(self.capacity, self.kept, loses_rest=self.loses_rest)
        made.size, made.closed = self.size, self.closed
        return made

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        kind, *rest = event
        if kind in ("look", "wrong", "undefined"):
            return {"look": Outcome.OK, "wrong": Outcome.MAY_FAIL}.get(kind, Outcome.UNDEFINED)
        if kind in ("close", "cancel"):
            was, self.closed = self.closed, True
            return Outcome.MAY_FAIL if was else Outcome.OK
        (count,) = rest
        return self._put(count) if kind == "put" else self._get(kind, count)

    def _put(self, count: int) -> Outcome:
        if self.closed:
            return Outcome.MAY_FAIL
        if self.size + count > self.capacity:
            # Several elements are put one after the other, so some may be there at the timeout.
            return Outcome.WAITS if count == 1 else Outcome.UNDEFINED
        self.size += count
        return Outcome.OK

    def _get(self, kind: str, count: int) -> Outcome:
        ready = self.size if self.closed else max(self.size - self.kept, 0)
        if count <= ready:
            self.size -= count
            return Outcome.OK
        if not self.closed:
            # What several elements have taken at the timeout depends on its moment.
            return Outcome.WAITS if ready == 0 else Outcome.UNDEFINED
        if kind == "upto" and ready:
            if self.loses_rest:
                return Outcome.UNDEFINED  # TensorFlow drops the last elements and fails
            self.size = 0
            return Outcome.OK
        return Outcome.MAY_FAIL


class Barrier(Resource):
    """A barrier of two components."""

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of keys, values of both components, and a number of elements."""
        n = self.name
        return {f"{n}_k": "string", f"{n}_x0": "float32", f"{n}_x1": "int64", f"{n}_n": "int32"}

    def nodes(self) -> list[str]:
        """Return the barrier and its ops."""
        n = self.name
        types = "component_types=[float32, int64]"
        return [
            f"{n} = Barrier({types}, shapes=[[], [2]])",
            f"{n}_in0 = BarrierInsertMany({n}, {n}_k, {n}_x0, component_index=0)",
            f"{n}_in1 = BarrierInsertMany({n}, {n}_k, {n}_x1, component_index=1)",
            f"{n}_take = BarrierTakeMany({n}, {n}_n, {types})",
            f"{n}_some = BarrierTakeMany({n}, {n}_n, {types}, allow_small_batch=True)",
            f"{n}_ready = BarrierReadySize({n})",
            f"{n}_open = BarrierIncompleteSize({n})",
            f"{n}_close = BarrierClose({n})",
            f"{n}_cancel = BarrierClose({n}, cancel_pending_enqueues=True)",
        ]

    def model(self) -> Model:
        """Return an empty barrier."""
        return _BarrierModel()

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops; most often an insertion."""
        n = self.name
        which = chooser.integer(0, 15)
        if which < 8:
            return self._insert(chooser)
        if which < 12:
            how, count = pick(chooser, ("take", "some")), chooser.integer(0, 3)
            outputs = tuple(f"{n}_{how}:{i}" for i in range(4))
            return Step(n, (how, count), outputs, (), ((f"{n}_n:0", Value("int32", count)),))
        if which < 15:
            return Step(n, ("look",), (f"{n}_ready:0", f"{n}_open:0"))
        how = pick(chooser, ("close", "cancel"))
        return Step(n, (how,), (), (f"{n}_{how}",))

    def _insert(self, chooser: Chooser) -> Step:
        n, part = self.name, chooser.integer(0, 1)
        letters = "abcde"
        start = chooser.integer(0, 4)
        keys = [letters[(start + i) % 5].encode() for i in range(chooser.integer(1, 3))]
        values: list[Any] = [chooser.integer(0, 99) for _ in keys]
        if part:
            values = [[value, -value] for value in values]
        dtype = ("float32", "int64")[part]
        feeds = ((f"{n}_k:0", Value("string", keys)), (f"{n}_x{part}:0", Value(dtype, values)))
        return Step(n, ("insert", part, *keys), (), (f"{n}_in{part}",), feeds)


class _BarrierModel(Model):
    def __init__(self) -> None:
        self.open: dict[bytes, set[int]] = {}
        self.ready = 0
        self.closed = False
        self.cancelled = False

    def copy(self) -> Model:
        copied = _BarrierModel()
        copied.open = {key: set(parts) for key, parts in self.open.items()}
        copied.ready, copied.closed, copied.cancelled = self.ready, self.closed, self.cancelled
        return copied

    def apply(self, event: tuple[Any, ...]) -> Outcome:
        kind, *rest = event
        if kind == "look":
            return Outcome.OK
        if kind in ("close", "cancel"):
            was = self.closed
            if was and kind == "cancel" and not self.open:
                return Outcome.UNDEFINED  # in TensorFlow the step never ends, even with a timeout
            self.closed, self.cancelled = True, self.cancelled or kind == "cancel"
            return Outcome.MAY_FAIL if was else Outcome.OK
        if kind == "insert":
            return self._insert(*rest)
        return self._take(kind, rest[0])

    def _insert(self, part: int, *keys: bytes) -> Outcome:
        if self.cancelled or (self.closed and any(key not in self.open for key in keys)):
            return (
                Outcome.MAY_FAIL
                if not any(key in self.open for key in keys)
                else (Outcome.UNDEFINED)
            )
        for position, key in enumerate(keys):
            parts = self.open.setdefault(key, set())
            if part in parts:
                return Outcome.MAY_FAIL if position == 0 else Outcome.UNDEFINED
        for key in keys:
            self.open[key].add(part)
            if len(self.open[key]) == 2:
                del self.open[key]
                self.ready += 1
        return Outcome.OK

    def _take(self, kind: str, count: int) -> Outcome:
        if count == 0 and self.closed:
            return Outcome.MAY_FAIL
        if count <= self.ready:
            self.ready -= count
            return Outcome.OK
        if not self.closed:
            return Outcome.WAITS if self.ready == 0 else Outcome.UNDEFINED
        if self.open and not self.cancelled:
            return Outcome.UNDEFINED
        if kind == "some" and self.ready:
            self.ready = 0
            return Outcome.OK
        return Outcome.MAY_FAIL
