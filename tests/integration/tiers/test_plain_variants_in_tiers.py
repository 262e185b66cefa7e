"""Variants of a plugin's class round-trip through built-in containers in each tier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.spi import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.tier_programs import graph_def

pytestmark = pytest.mark.divided

TIERS = ("off", "tiered", "eager")
STEPS = 6


class Plain:
    """A class without attributes of tensors."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def zeros_like(self, xp: Any) -> Plain:
        return type(self)(xp.zeros_like(self.value))

    def add(self, xp: Any, other: Any) -> Plain:
        return type(self)(xp.add(self.value, other.value))


class Named(Plain):
    """A class whose attributes have the names of a tensor's, with other meanings."""

    __slots__ = ()

    shape = "round"
    dtype = "cardboard"
    ndim = "flat"
    size = "large"
    nbytes = "few"


class Matrix(Plain):
    """An array-like class whose rank and type differ from those of a variant scalar."""

    __slots__ = ()

    shape = (2, 3)
    dtype = np.dtype(np.float32)
    ndim = 2
    size = 6
    nbytes = 24

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Any:
        return self.__array__()[index]

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.zeros((2, 3), np.float32)


def boxes(kind: type[Plain]) -> Any:
    """Return the kernel that stores twice its input in an object of a class."""

    @kernel("ForeignBox")
    def box(xp: Any, x: Any) -> Plain:
        return kind(xp.add(x, x))

    return box


@kernel("ForeignOpen")
def open_(xp: Any, v: Any) -> Any:
    return xp.add(v.value, 1)


FLOAT, VARIANT = dtypes.float32, dtypes.variant
OPS = (
    OpDef("ForeignBox", (ArgDef("x", FLOAT),), (ArgDef("v", VARIANT),)),
    OpDef("ForeignOpen", (ArgDef("v", VARIANT),), (ArgDef("y", FLOAT),)),
)
CONSTANTS = (
    "e = Const(dtype=int32, value='int32: []')",
    "zero = Const(dtype=int32, value='int32: 0')",
    "one = Const(dtype=int32, value='int32: 1')",
    "two = Const(dtype=int32, value='int32: 2')",
    "unknown = Const(dtype=int32, value='int32: -1')",
    "order = Const(dtype=int32, value='int32: [1, 0]')",
    "some = Const(dtype=int64, value='int64: 2')",
    "single = Const(dtype=int64, value='int64: 1')",
    "begin = Const(dtype=int64, value='int64: 0')",
    "no = Const(dtype=bool, value='bool: False')",
    "many = Const(dtype=int64, value='int64: [1]')",
    "yes = Const(dtype=bool, value='bool: True')",
    "key = Const(dtype=string, value='string: b\"k\"')",
)
INNER = (
    "inner(v: variant) -> (variant): "
    "d = TensorDataset([v], Toutput_types=[variant], output_shapes=[[]]); return d"
)
SHORT = (
    "short(v: variant, i: int32) -> (bool): "
    "n = Const(dtype=int32, value='int32: 2'); y = Less(i, n); return y"
)
LONGER = (
    "longer(v: variant, i: int32) -> (variant, int32): "
    "n = Const(dtype=int32, value='int32: 1'); y = AddV2(i, n); return v, y"
)
FUNCTIONS = (
    "same(v: variant) -> (variant): y = Identity(v); return y",
    "chosen(v: variant) -> (bool): y = Const(dtype=bool, value='bool: True'); return y",
    "keyed(v: variant) -> (int64): y = Const(dtype=int64, value='int64: 3'); return y",
    "width(k: int64) -> (int64): y = Const(dtype=int64, value='int64: 1'); return y",
    "window(k: int64, d: variant) -> (variant): y = Identity(d); return y",
    "second(s: variant, v: variant) -> (variant): y = Identity(v); return y",
    "scan(s: variant, v: variant) -> (variant, variant): y = Identity(v); return y, s",
    INNER,
    SHORT,
    LONGER,
)
E = "element_dtype=variant"
ANY = "output_types=[variant], output_shapes=[[]]"
DATASET = "d = TensorDataset([b], Toutput_types=[variant], output_shapes=[[]])"
ROWS = (
    "k = Pack([b, b])",
    "d = TensorSliceDataset([k], Toutput_types=[variant], output_shapes=[[]])",
)
PAIR = ("k = Pack([b, b])",)
PADDED = "Toutput_types=[variant]"
MANY = "output_types=[variant], output_shapes=[[-1]]"
UNPACKED = ("u = Unpack(k, num=2, axis=0)", "o = Identity(u[1])")
EMPTY = f"l0 = EmptyTensorList(e, two, {E}, shape_type=int32)"
PUSHED = (EMPTY, f"l1 = TensorListPushBack(l0, b, {E})")
BATCHED = (
    f"t = DatasetToSingleElement(g, {MANY})",
    "o = Squeeze(t)",
)


def first(name: str) -> str:
    """Return the node that reads the only element of a dataset."""
    return f"o = DatasetToSingleElement({name}, {ANY})"


def got(*nodes: str, handle: str) -> tuple[str, ...]:
    """Return nodes that read the second row of a result."""
    return (*nodes, f"u = Unpack({handle}, num=2, axis=0)", "o = Identity(u[1])")


LISTS: dict[str, tuple[str, ...]] = {
    "set item": (
        f"l0 = TensorListReserve(e, two, {E}, shape_type=int32)",
        f"l1 = TensorListSetItem(l0, one, b, {E})",
        f"o = TensorListGetItem(l1, one, e, {E})",
    ),
    "push and pop": (*PUSHED, f"p = TensorListPopBack(l1, e, {E})", "o = Identity(p[1])"),
    "list stack": (*PUSHED, f"s = TensorListStack(l1, e, {E})", "o = Squeeze(s)"),
    "list of any shape": (
        f"l0 = EmptyTensorList(unknown, two, {E}, shape_type=int32)",
        f"l1 = TensorListPushBack(l0, b, {E})",
        *(f"s = TensorListStack(l1, unknown, {E})", "o = Squeeze(s)"),
    ),
    "list of a tensor": (
        *PAIR,
        f"l0 = TensorListFromTensor(k, e, {E}, shape_type=int32)",
        f"o = TensorListGetItem(l0, one, e, {E})",
    ),
    "list scatter and gather": got(
        *PAIR,
        f"l0 = TensorListScatterV2(k, order, e, two, {E}, shape_type=int32)",
        f"r = TensorListGather(l0, order, unknown, {E})",
        handle="r",
    ),
    "list scatter into a list": (
        *(*PAIR, f"l0 = TensorListReserve(unknown, two, {E}, shape_type=int32)"),
        f"l1 = TensorListScatterIntoExistingList(l0, k, order, {E})",
        f"o = TensorListGetItem(l1, one, unknown, {E})",
    ),
    "list split and concat": got(
        *(*PAIR, "row = Const(dtype=int32, value='int32: [1]')"),
        "lengths = Const(dtype=int64, value='int64: [1, 1]')",
        f"l0 = TensorListSplit(k, row, lengths, {E}, shape_type=int32)",
        f"r = TensorListConcatV2(l0, unknown, lengths, {E}, shape_type=int32)",
        handle="r[0]",
    ),
    "lists pushed together": (
        *(*PUSHED, "ls = Pack([l0, l0])", *PAIR, f"m = TensorListPushBackBatch(ls, k, {E})"),
        *("n = Unpack(m, num=2, axis=0)", f"o = TensorListGetItem(n[1], zero, e, {E})"),
    ),
    "lists concatenated": (
        *(*PUSHED, f"m = TensorListConcatLists(l1, l1, {E})"),
        f"o = TensorListGetItem(m, one, e, {E})",
    ),
    "lists added": (
        *(*PUSHED, "z = ZerosLike(l1)", "m = AddN([l1, z])"),
        f"o = TensorListGetItem(m, zero, e, {E})",
    ),
    "list in a list": (
        *(*PUSHED, f"l2 = TensorListPushBack(l0, l1, {E})"),
        f"l3 = TensorListGetItem(l2, zero, e, {E})",
        f"o = TensorListGetItem(l3, zero, e, {E})",
    ),
}
DATASETS: dict[str, tuple[str, ...]] = {
    "optional": (
        "p = OptionalFromValue([b], Toutput_types=[variant])",
        f"o = OptionalGetValue(p, {ANY})",
    ),
    "optionals added": (
        "p = OptionalFromValue([b], Toutput_types=[variant])",
        *("z = ZerosLike(p)", "s = AddN([p, z])", f"o = OptionalGetValue(s, {ANY})"),
    ),
    "dataset": (DATASET, first("d")),
    "mapped dataset": (
        *(DATASET, f"g = MapDataset(d, [], f=same, Targuments=[], {ANY})", first("g")),
    ),
    "parallel map": (
        *(DATASET, f"g = ParallelMapDatasetV2(d, [], some, f=same, Targuments=[], {ANY})"),
        first("g"),
    ),
    "filter": (
        *(DATASET, f"g = FilterDataset(d, [], predicate=chosen, Targuments=[], {ANY})"),
        first("g"),
    ),
    "flat map": (
        *(DATASET, f"g = FlatMapDataset(d, [], f=inner, Targuments=[], {ANY})", first("g")),
    ),
    "groups": (
        DATASET,
        (
            "g = GroupByWindowDataset(d, [], [], [], key_func=keyed, reduce_func=window, "
            "window_size_func=width, Tkey_func_other_arguments=[], "
            f"Treduce_func_other_arguments=[], Twindow_size_func_other_arguments=[], {ANY})"
        ),
        first("g"),
    ),
    "scan": (
        DATASET,
        f"g = ScanDataset(d, [b], [], f=scan, Tstate=[variant], Targuments=[], {ANY})",
        first("g"),
    ),
    "reduce": (
        DATASET,
        f"o = ReduceDataset(d, [b], [], f=second, Tstate=[variant], Targuments=[], {ANY})",
    ),
    "slices": (*ROWS, f"g = SkipDataset(d, single, {ANY})", first("g")),
    "cache, repeat and shuffle": (
        *ROWS,
        "none = Const(dtype=string, value='string: b\"\"')",
        *(f"c = CacheDataset(d, none, {ANY})", f"r = RepeatDataset(c, some, {ANY})"),
        f"h = ShuffleDataset(r, some, begin, begin, {ANY})",
        *(f"f = PrefetchDataset(h, some, {ANY})", f"g = TakeDataset(f, single, {ANY})", first("g")),
    ),
    "window": (
        *(DATASET, "w = WindowDataset(d, single, single, single, no, " + ANY + ")"),
        *(f"v = DatasetToSingleElement(w, {ANY})", first("v")),
    ),
    "batch": (
        *(
            DATASET,
            f"g = BatchDatasetV2(d, single, no, {MANY})",
        ),
        *BATCHED,
    ),
    "map and batch": (
        DATASET,
        (f"g = MapAndBatchDataset(d, [], single, single, no, f=same, Targuments=[], {MANY})"),
        *BATCHED,
    ),
    "batch taken apart": (
        *(*ROWS, f"g = BatchDatasetV2(d, some, no, {MANY})"),
        *(f"n = UnbatchDataset(g, {ANY})", f"s = SkipDataset(n, single, {ANY})", first("s")),
    ),
    "padded batch of scalars": (
        *(DATASET, "shape = Const(dtype=int64, value='int64: []')"),
        f"g = PaddedBatchDatasetV2(d, single, [shape], [b], no, {PADDED}, output_shapes=[[-1]])",
        *BATCHED,
    ),
    "padded batch": (
        *(*PAIR, "d = TensorDataset([k], Toutput_types=[variant], output_shapes=[[2]])"),
        "shape = Const(dtype=int64, value='int64: [3]')",
        f"g = PaddedBatchDatasetV2(d, single, [shape], [b], no, {PADDED}, output_shapes=[[-1, 3]])",
        "t = DatasetToSingleElement(g, output_types=[variant], output_shapes=[[-1, 3]])",
        *("n = Squeeze(t)", "u = Unpack(n, num=3, axis=0)", "o = Identity(u[2])"),
    ),
    "iterator": (
        *(DATASET, f"i = AnonymousIteratorV3({ANY})", "s = MakeIterator(d, i)"),
        f"o = IteratorGetNext(i, {ANY}, after=[s])",
    ),
    "iterator of optionals": (
        *(DATASET, f"i = AnonymousIteratorV3({ANY})", "s = MakeIterator(d, i)"),
        f"p = IteratorGetNextAsOptional(i, {ANY}, after=[s])",
        f"o = OptionalGetValue(p, {ANY})",
    ),
}
QUEUES: dict[str, tuple[str, ...]] = {
    "queue": (
        "q = FIFOQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueV2(q, [b], Tcomponents=[variant])",
        "o = QueueDequeueV2(q, component_types=[variant], after=[w])",
    ),
    "queue of many": got(
        *PAIR,
        "q = FIFOQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueManyV2(q, [k], Tcomponents=[variant])",
        "r = QueueDequeueManyV2(q, two, component_types=[variant], after=[w])",
        handle="r",
    ),
    "padding queue": (
        "q = PaddingFIFOQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueV2(q, [b], Tcomponents=[variant])",
        "r = QueueDequeueManyV2(q, one, component_types=[variant], after=[w])",
        "o = Squeeze(r)",
    ),
    "shuffled queue": (
        "q = RandomShuffleQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueV2(q, [b], Tcomponents=[variant])",
        "o = QueueDequeueV2(q, component_types=[variant], after=[w])",
    ),
    "priority queue": (
        "q = PriorityQueueV2(component_types=[variant], shapes=[[]])",
        "w = QueueEnqueueV2(q, [single, b], Tcomponents=[int64, variant])",
        "r = QueueDequeueV2(q, component_types=[int64, variant], after=[w])",
        "o = Identity(r[1])",
    ),
    "staging": (
        "w = Stage([b], dtypes=[variant], shared_name='s')",
        "o = Unstage(dtypes=[variant], shared_name='s', after=[w])",
    ),
    "staging of some bytes": (
        "w = Stage([b], dtypes=[variant], shared_name='s', memory_limit=1000)",
        "o = Unstage(dtypes=[variant], shared_name='s', memory_limit=1000, after=[w])",
    ),
    "map of stages": (
        "n = Const(dtype=int32, value='int32: [0]')",
        "w = MapStage(single, n, [b], dtypes=[variant], fake_dtypes=[variant], shared_name='m')",
        "o = MapUnstage(single, n, dtypes=[variant], shared_name='m', after=[w])",
    ),
    "barrier": (
        *("t = Barrier(component_types=[variant], shapes=[[]])", "k = Pack([b])"),
        *("n = Pack([key])", "w = BarrierInsertMany(t, n, k, component_index=0)"),
        "r = BarrierTakeMany(t, one, component_types=[variant], after=[w])",
        "o = Squeeze(r[2])",
    ),
    "stack": (
        *("t = StackV2(one, elem_type=variant)", "w = StackPushV2(t, b)"),
        "o = StackPopV2(t, elem_type=variant, after=[w])",
    ),
}
ARRAYS: dict[str, tuple[str, ...]] = {
    "pack and unpack": (*PAIR, *UNPACKED),
    "zeros and sum": ("z = ZerosLike(b)", "o = AddN([b, z])"),
    "choice": ("o = Select(yes, b, b)",),
    "choice with broadcast": ("o = SelectV2(yes, b, b)",),
    "filled tensor": got("n = Pack([two])", "r = Fill(n, b)", handle="r"),
    "broadcast": got("n = Pack([two])", "r = BroadcastTo(b, n)", handle="r"),
    "more axes": ("a = ExpandDims(b, zero)", "o = Squeeze(a)"),
    "reshaped": (*("n = Pack([one])", "a = Reshape(b, n)", "o = Reshape(a, e)"),),
    "ensured shape": ("o = EnsureShape(b, shape=[])",),
    "gathered rows": (*PAIR, "o = GatherV2(k, one, zero)"),
    "joined": got("a = ExpandDims(b, zero)", "r = ConcatV2([a, a], zero)", handle="r"),
    "shape": (
        *("s = Shape(b, out_type=int32)", "r = Rank(b)", "n = Size(b)"),
        *("t = Reshape(b, s)", "ok = Equal(r, zero)", "ok2 = Equal(n, one)"),
        *("both = LogicalAnd(ok, ok2)", "z = ZerosLike(b)", "o = Select(both, b, z)"),
    ),
    "slice of nothing": ("o = Slice(b, e, e)",),
    "strided slice of nothing": ("o = StridedSlice(b, e, e, e)",),
    "strided slice": (
        *(*PAIR, "p = Pack([one])", "q = Pack([two])"),
        "o = StridedSlice(k, p, q, p, shrink_axis_mask=1)",
    ),
    "transposed scalar": ("o = Transpose(b, e)",),
    "tiled scalar": ("o = Tile(b, e)",),
    "gathered element": (*PAIR, "p = Pack([one])", "o = GatherNd(k, p)"),
    "stitched": got(
        *("p = Pack([one])", "q = Pack([zero])", "a = ExpandDims(b, zero)"),
        "r = DynamicStitch([p, q], [a, a])",
        handle="r",
    ),
    "partitioned": (*PAIR, "p = DynamicPartition(k, order, num_partitions=2)", "o = Squeeze(p[0])"),
    "split": (*PAIR, "s = Split(zero, k, num_split=2)", "o = Squeeze(s[1])"),
    "table": (
        "t = MutableHashTableV2(key_dtype=int64, value_dtype=variant)",
        "w = LookupTableInsertV2(t, single, b)",
        "o = LookupTableFindV2(t, single, b, after=[w])",
    ),
    "default of a table": (
        *("t = MutableHashTableV2(key_dtype=int64, value_dtype=variant)",),
        *("q = Pack([some])", "f = LookupTableFindV2(t, q, b)", "o = Squeeze(f)"),
    ),
    "loop": (
        "w = While([b, zero], T=[variant, int32], cond=short, body=longer)",
        "o = Identity(w[0])",
    ),
    "frame": ("n = Enter(b, frame_name='f')", "o = Exit(n)"),
    "function": ("o = PartitionedCall([b], Tout=[variant], f=same)",),
    "branches": ("o = If(yes, [b], Tout=[variant], then_branch=same, else_branch=same)",),
    "merge": ("s = Switch(b, yes)", "m = Merge([s[0], s[1]])", "o = Identity(m[0])"),
    "variable": (
        "v = VarHandleOp(dtype=variant, shape=[], shared_name='v')",
        "w = AssignVariableOp(v, b, dtype=variant, validate_shape=True)",
        "o = ReadVariableOp(v, dtype=variant, after=[w])",
    ),
    "reference variable": (
        "v = VariableV2(dtype=variant, shape=[], shared_name='r')",
        *("w = Assign(v, b)", "o = Identity(w)"),
    ),
    "tensor array": (
        "a = TensorArrayV3(one, dtype=variant)",
        "f = TensorArrayWriteV3(a, zero, b, a[1])",
        "o = TensorArrayReadV3(a, zero, f, dtype=variant)",
    ),
    "tensor array of scalars": got(
        *PAIR,
        "a = TensorArrayV3(two, dtype=variant, element_shape=[], identical_element_shapes=True)",
        "f = TensorArrayScatterV3(a, order, k, a[1])",
        "r = TensorArrayGatherV3(a, order, f, dtype=variant, element_shape=[])",
        handle="r",
    ),
}
CONTAINERS = {**LISTS, **DATASETS, **QUEUES, **ARRAYS}


NUMBER = "output_types=[float], output_shapes=[[]]"
OPTIONAL = "p = OptionalFromValue([b], Toutput_types=[variant])"
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "an optional read as a number": (
        (OPTIONAL, f"o = OptionalGetValue(p, {NUMBER})"),
        "does not match the expected type for component 0. Expected: float32. Actual: variant.",
    ),
    "an optional read with axes": (
        (OPTIONAL, f"o = OptionalGetValue(p, {MANY})"),
        r"does not match the expected shape for component 0. Expected: \[\?\]. Actual: \[\]",
    ),
    "an element read as a number": (
        (DATASET, f"o = DatasetToSingleElement(d, {NUMBER})"),
        "Data type mismatch at component 0: expected float32 but got variant",
    ),
    "slices of a scalar": (
        ("d = TensorSliceDataset([b], Toutput_types=[variant], output_shapes=[[]])",),
        "All components must be at least 1-dimensional",
    ),
    "a batch of unequal shapes": (
        (
            *(
                DATASET,
                *PAIR,
                "s = TensorDataset([k], Toutput_types=[variant], output_shapes=[[2]])",
            ),
            f"c = ConcatenateDataset(d, s, {ANY})",
            f"g = BatchDatasetV2(c, some, no, {MANY})",
            f"o = DatasetToSingleElement(g, {MANY})",
        ),
        r"First element had shape \[\] and element 1 had shape \[2\]",
    ),
    "a predicate that gives a variant": (
        (
            DATASET,
            f"g = FilterDataset(d, [], predicate=same, Targuments=[], {ANY})",
            first("g"),
        ),
        "must return a scalar bool",
    ),
    "unique elements": (
        (DATASET, f"g = UniqueDataset(d, {ANY})", first("g")),
        "UniqueDataset cannot compare elements of type variant",
    ),
    "rows of a scalar into a queue": (
        (
            "q = FIFOQueueV2(component_types=[variant], shapes=[[]])",
            "o = QueueEnqueueManyV2(q, [b], Tcomponents=[variant])",
        ),
        r"Shape mismatch in tuple component 0. Expected \[\?\], got \[\]",
    ),
    "a list of a scalar": (
        (f"o = TensorListFromTensor(b, e, {E}, shape_type=int32)",),
        "Tensor must be at least a vector",
    ),
    "a list of vectors": (
        (
            "n = Pack([one])",
            f"l0 = EmptyTensorList(n, two, {E}, shape_type=int32)",
            f"o = TensorListPushBack(l0, b, {E})",
        ),
        r"incompatible shape to a list. Op element shape: \[\] list shape: \[1\]",
    ),
    "no list": ((f"o = TensorListPushBack(b, b, {E})",), "Input handle is not a list"),
    "elements without a first axis": (
        (
            f"l0 = EmptyTensorList(unknown, two, {E}, shape_type=int32)",
            f"l1 = TensorListPushBack(l0, b, {E})",
            f"s = TensorListConcatV2(l1, unknown, many, {E}, shape_type=int32)",
        ),
        "Concat saw a scalar shape at index 0",
    ),
    "scalars joined": (
        ("o = ConcatV2([b, b], zero)",),
        "concat dimension = 0 is out of range for a tensor of rank 0",
    ),
    "a shape that is not ensured": (
        ("o = EnsureShape(b, shape=[2])",),
        r"Shape of tensor \[\] is not compatible with expected shape \[2\]",
    ),
}


def host_of(kind: type[Plain]) -> graphmill.Host:
    """Return a host with the ops, one of which creates variants of a class."""
    return graphmill.Host(plugins=[ThirdPartyPlugin(OPS, (boxes(kind), open_))])


def session_of(host: graphmill.Host, nodes: tuple[str, ...], tier: str) -> graphmill.Session:
    """Return a session of nodes that may read `b`, a variant."""
    config = proto.ConfigProto()
    config.graphmill.jit = tier
    config.graphmill.jit_min_cluster_size = 1
    nodes = (*CONSTANTS, "b = ForeignBox(x)", *nodes)
    graph = graph_def(host.ops, nodes, FUNCTIONS, {"x": "float32: 2"})
    return graphmill.Session(graph=graph, host=host, config=config)


def run(container: str, tier: str, kind: type[Plain]) -> None:
    """Pass a variant through a container in several steps."""
    host = host_of(kind)
    with session_of(host, (*CONTAINERS[container], "y = ForeignOpen(o)"), tier) as session:
        for step in range(STEPS):
            assert session.run("y:0", {"x:0": np.float32(step)}) == 2 * step + 1
            assert host.background.wait_idle(60.0)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_plain_variant_round_trips(container: str, tier: str) -> None:
    run(container, tier, Named)


@pytest.mark.parametrize("kind", [Plain, Matrix])
@pytest.mark.parametrize("container", CONTAINERS)
def test_variant_is_a_scalar_regardless_of_its_class(container: str, kind: type[Plain]) -> None:
    run(container, "off", kind)


@pytest.mark.parametrize("kind", [Plain, Named])
@pytest.mark.parametrize("what", REFUSED)
def test_misplaced_plain_variant_is_invalid_argument(what: str, kind: type[Plain]) -> None:
    nodes, message = REFUSED[what]
    with session_of(host_of(kind), nodes, "off") as session:
        name = nodes[-1].partition(" ")[0]
        with pytest.raises(InvalidArgumentError, match=message):
            session.run(name, {"x:0": np.float32(1)})


@pytest.mark.parametrize("kind", [Plain, Named])
def test_a_traced_step_describes_a_plain_variant_as_a_scalar(kind: type[Plain]) -> None:
    options = proto.RunOptions(trace_level=proto.RunOptions.FULL_TRACE)
    metadata = proto.RunMetadata()
    with session_of(host_of(kind), ("y = ForeignOpen(b)",), "off") as session:
        got = session.run("y:0", {"x:0": np.float32(1)}, options=options, run_metadata=metadata)
    assert got == 3
    nodes = {
        node.node_name: node for part in metadata.step_stats.dev_stats for node in part.node_stats
    }
    (output,) = nodes["b"].output
    assert not output.tensor_description.shape.dim
