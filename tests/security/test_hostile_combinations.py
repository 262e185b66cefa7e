"""Attacks that combine features: texts that become paths, handles of others, odd files."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.security.hostile import REFUSED, contents, recorded
from tests.security.test_hostile_escapes import checkpoint_model, graph_of
from tests.security.test_hostile_models import command_line

import graphmill
from graphmill import errors, proto, saved_model
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.saved.checkpoint import load_checkpoint
from graphmill.saved.table import TableWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUDGET: Final = 64 << 20
_STRING: Final = "output_types=[string], output_shapes=[[]]"
_ONE: Final = "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
_X: Final = "x = Const(dtype=float32, value='float32: 1.0'); "


@pytest.fixture
def free(tmp_path: Path) -> Path:
    """Return a folder that models may write; everything beside it is attacked."""
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "free"
    folder.mkdir()
    return folder


def outside(free: Path) -> dict[str, tuple[int, bytes]]:
    """Return the contents beside the folder."""
    found = contents(free.parent)
    return {path: state for path, state in found.items() if not path.startswith(str(free))}


# ----------------------------------------------------------------- texts that become part of a path

PARTS: Final[dict[str, tuple[str, str]]] = {
    "the tensor of DebugIdentity": (
        "DebugIdentity",
        (f"{_X}a = DebugIdentity(x, tensor_name='../../evil:0', debug_urls=['file://{{free}}'])"),
    ),
    "the tensor of DebugNanCount": (
        "DebugNanCount",
        f"{_X}a = DebugNanCount(x, tensor_name='../../evil:0', debug_urls=['file://{{free}}'])",
    ),
    "the tensor of DebugNumericSummary": (
        "DebugNumericSummary",
        (
            f"{_X}a = DebugNumericSummary(x, tensor_name='../../evil:0', "
            "debug_urls=['file://{free}'])"
        ),
    ),
    "a second URL of DebugIdentity": (
        "DebugIdentity",
        (
            f"{_X}a = DebugIdentity(x, tensor_name='x:0', "
            "debug_urls=['file://{free}', 'file://{free}/../evil'])"
        ),
    ),
    "the URL of DebugIdentityV2": (
        "DebugIdentityV2",
        (
            f"{_X}a = DebugIdentityV2(x, tfdbg_context_id='x', op_name='x', output_slot=0, "
            "tensor_debug_mode=8, tfdbg_run_id='x', debug_urls=['file://{free}/../evil'])"
        ),
    ),
    "the suffix of an event file": (
        "CreateSummaryFileWriter",
        (
            "w = SummaryWriter(); l = Const(dtype=string, value=\"string: '{free}'\"); "
            "s = Const(dtype=string, value=\"string: '/../../evil'\"); "
            "m = Const(dtype=int32, value='int32: 1'); a = CreateSummaryFileWriter(w, l, m, m, s)"
        ),
    ),
    "a printed stream": ("PrintV2", "a = PrintV2(f, output_stream='file://{free}/../evil')"),
    "the file of a cache": (
        "CacheDataset",
        (
            f"{_ONE}n = Const(dtype=string, value=\"string: '{{free}}/../evil'\"); "
            f"e = CacheDataset(d, n, {_STRING}); a = DatasetToSingleElement(e, {_STRING})"
        ),
    ),
    "the name of a snapshot": (
        "SnapshotDataset",
        (
            f"{_ONE}n = Const(dtype=string, value=\"string: '{{free}}'\"); "
            f"e = SnapshotDataset(d, n, {_STRING}, snapshot_name='/../../evil', mode='write'); "
            f"a = DatasetToSingleElement(e, {_STRING})"
        ),
    ),
    "the prefix of a writer of snapshots": (
        "SnapshotDataset",
        (
            f"{_ONE}n = Const(dtype=string, value=\"string: '/x'\"); "
            f"e = SnapshotDataset(d, n, {_STRING}, writer_path_prefix='{{free}}/../evil', "
            "reader_path_prefix='{free}/../evil', mode='write'); "
            f"a = DatasetToSingleElement(e, {_STRING})"
        ),
    ),
    "a checkpoint": (
        "SaveV2",
        (
            "n = Const(dtype=string, value=\"string: ['t']\"); "
            "s = Const(dtype=string, value=\"string: ['']\"); "
            f"p = Const(dtype=string, value=\"string: '{{free}}/x/../../evil'\"); {_X}"
            "a = SaveV2(p, n, s, [x], dtypes=[float32])"
        ),
    ),
    "merged parts outside of the folder": (
        "MergeV2Checkpoints",
        (
            "q = Const(dtype=string, value=\"string: ['{free}/../source']\"); "
            "p = Const(dtype=string, value=\"string: '{free}/merged'\"); "
            "a = MergeV2Checkpoints(q, p)"
        ),
    ),
    "a dataset": (
        "SaveDataset",
        (
            f"{_ONE}p = Const(dtype=string, value=\"string: '{{free}}/../evil'\"); "
            "a = SaveDataset(d, p, [], shard_func=shard, Tshard_func_args=[], use_shard_func=False)"
        ),
    ),
}
_SHARD: Final = ("shard(f: string) -> (int64): y = Const(dtype=int64, value='int64: 0'); return y",)


@pytest.mark.parametrize("name", PARTS)
def test_part_of_a_path_leaves_no_allowed_folder(name: str, free: Path) -> None:
    op, nodes = PARTS[name]
    with BundleWriter(free.parent / "source") as bundle:
        bundle.add("v", np.float32([1]))
    before = outside(free)
    graph = graph_of(f"{nodes.format(free=free)}; y = Identity(f, after=[a])", _SHARD)
    rules = [f"fs.write:{free}", f"fs.read:{free.parent}", f"fs.list:{free.parent}"]
    with (
        graphmill.Session(graph=graph, allow=rules) as session,
        pytest.raises(REFUSED, match=f"the op {op} may not write") as caught,
    ):
        session.run("y:0", {"f:0": b"text"})
    assert (caught.value.op_type, bool(caught.value.node)) == (op, True)
    assert outside(free) == before


# --------------------------------------------------------------------------- what belongs to others

SHARED: Final = {
    "a variable": (
        (
            "v = VarHandleOp(dtype=string, shape=[], shared_name='s', container='c'); "
            "a = AssignVariableOp(v, f); y = Identity(f, after=[a])"
        ),
        (
            "v = VarHandleOp(dtype=string, shape=[], shared_name='s', container='c'); "
            "y = ReadVariableOp(v, dtype=string)"
        ),
    ),
    "a table": (
        (
            "t = MutableHashTableV2(key_dtype=string, value_dtype=string, shared_name='s'); "
            "a = LookupTableInsertV2(t, f, f); y = Identity(f, after=[a])"
        ),
        (
            "t = MutableHashTableV2(key_dtype=string, value_dtype=string, shared_name='s'); "
            "n = Const(dtype=string, value=\"string: 'none'\"); y = LookupTableFindV2(t, f, n)"
        ),
    ),
    "a queue": (
        (
            "q = FIFOQueueV2(component_types=[string], shared_name='s'); "
            "a = QueueEnqueueV2(q, [f]); y = Identity(f, after=[a])"
        ),
        (
            "q = FIFOQueueV2(component_types=[string], shared_name='s'); "
            "a = QueueSizeV2(q); y = AsString(a)"
        ),
    ),
    "a staging area": (
        "a = Stage([f], shared_name='s'); y = Identity(f, after=[a])",
        "a = StageSize(dtypes=[string], shared_name='s'); y = AsString(a)",
    ),
    "a stack": (
        (
            "n = Const(dtype=int32, value='int32: 5'); "
            "k = StackV2(n, elem_type=string, stack_name='s'); p = StackPushV2(k, f); "
            "y = Identity(p)"
        ),
        (
            "n = Const(dtype=int32, value='int32: 5'); "
            "k = StackV2(n, elem_type=string, stack_name='s'); y = StackPopV2(k, elem_type=string)"
        ),
    ),
}
EMPTY: Final = {"a table": b"none", "a queue": b"0", "a staging area": b"0"}


@pytest.mark.parametrize("name", SHARED)
def test_resource_of_another_session_is_not_reached_by_its_name(name: str) -> None:
    write, read = SHARED[name]
    with (
        graphmill.Session(graph=graph_of(write)) as owner,
        graphmill.Session(graph=graph_of(read), trust=False) as other,
    ):
        owner.run("y:0", {"f:0": b"secret"})
        if name in EMPTY:
            assert other.run("y:0", {"f:0": b"secret"}) == EMPTY[name]
            return
        with pytest.raises(errors.OpError) as caught:
            other.run("y:0", {"f:0": b"secret"}, options={"timeout_in_ms": 2000})
        assert caught.value.node


def test_handles_of_another_session_are_refused() -> None:
    give = graph_of("y = GetSessionHandleV2(f); h = GetSessionHandle(f)")
    take = graph_of("y = GetSessionTensor(f, dtype=string)")
    with (
        graphmill.Session(graph=give) as owner,
        graphmill.Session(graph=take, trust=False) as other,
    ):
        handle = owner.run("h:0", {"f:0": b"secret"})
        with pytest.raises(errors.InvalidArgumentError, match="another session"):
            other.run("y:0", {"f:0": handle})


def test_iterator_of_another_session_is_refused() -> None:
    give = graph_of(
        f"{_ONE}i = IteratorV2(shared_name='s', container='', {_STRING}); "
        "m = MakeIterator(d, i); y = IteratorToStringHandle(i, after=[m])"
    )
    take = graph_of(
        f"i = IteratorFromStringHandleV2(f, {_STRING}); y = IteratorGetNext(i, {_STRING})"
    )
    with (
        graphmill.Session(graph=give) as owner,
        graphmill.Session(graph=take, trust=False) as other,
    ):
        handle = owner.run("y:0", {"f:0": b"secret"})
        with pytest.raises(errors.OpError):
            other.run("y:0", {"f:0": handle})


# ------------------------------------------------------------------ attrs that name code or devices

READ: Final = ("act(f: string) -> (string): y = ReadFile(f); return y",)
NAMED: Final = {
    "an executor": ("executor_type='os:system'", errors.NotFoundError),
    "an entry point": ("executor_type='graphmill.plugins:x'", errors.NotFoundError),
}


@pytest.mark.parametrize("name", NAMED)
def test_attr_of_a_call_changes_no_rules(name: str, free: Path) -> None:
    attr, error = NAMED[name]
    graph = graph_of(f"y = PartitionedCall([f], Tout=[string], f=act, {attr})", READ)
    with recorded(free.parent) as events, graphmill.Session(graph=graph, trust=False) as session:
        with pytest.raises(error) as caught:
            session.run("y:0", {"f:0": str(free.parent / "secret")})
        assert caught.value.node
    assert events == []


def test_serialized_config_of_a_call_changes_no_rules(free: Path) -> None:
    graph = graph_of("y = PartitionedCall([f], Tout=[string], f=act)", READ)
    config = proto.ConfigProto()
    config.graphmill.allow.append("fs.read")
    for node in graph.node:
        if node.op == "PartitionedCall":
            node.attr["config_proto"].s = config.SerializeToString()
    with (
        recorded(free.parent) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(REFUSED, match="ReadFile may not"),
    ):
        session.run("y:0", {"f:0": str(free.parent / "secret")})
    assert events == []


@pytest.mark.parametrize("target", ["/job:worker/task:1", "grpc://127.0.0.1:9", "/device:GPU:7"])
def test_remote_call_reaches_no_other_task(target: str, free: Path) -> None:
    graph = graph_of("y = RemoteCall(f, [f], Tin=[string], Tout=[string], f=act)", READ)
    with (
        recorded(free.parent) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(errors.OpError) as caught,
    ):
        session.run("y:0", {"f:0": target})
    assert caught.value.node == "y"
    assert events == []


# --------------------------------------------------------------------------------- waiting for ever

_GROUP: Final = (
    f"{_X}o = Const(dtype=int32, value='int32: 0'); v = ExpandDims(x, o); "
    "i = Const(dtype=int32, value='int32: 2'); k = Const(dtype=int32, value='int32: 1'); "
)
WAITS: Final = {
    "a sum of a group": f"{_GROUP}a = CollectiveReduceV2(v, i, k, k, [], merge_op='Add', "
    "final_op='Id')",
    "a gathering of a group": f"{_GROUP}a = CollectiveGatherV2(v, i, k, k, [])",
    "a broadcast": "a = CollectiveBcastRecv(T=float32, group_size=2, group_key=1, instance_key=1, "
    "shape=[1])",
    "a staging area": "a = Unstage(dtypes=[string], shared_name='x')",
    "a map": "k = Const(dtype=int64, value='int64: 1'); j = Const(dtype=int32, value='int32: [0]');"
    " a = MapUnstage(k, j, dtypes=[string])",
    "an accumulator": "q = ConditionalAccumulator(dtype=float32, shape=[1]); "
    "n = Const(dtype=int32, value='int32: 1'); a = AccumulatorTakeGradient(q, n, dtype=float32)",
    "a queue": "q = FIFOQueueV2(component_types=[string]); "
    "a = QueueDequeueV2(q, component_types=[string])",
    "a full queue": "q = FIFOQueueV2(component_types=[string], capacity=0); "
    "a = QueueEnqueueV2(q, [f])",
    "a barrier": "q = Barrier(component_types=[string], shapes=[[]]); "
    "n = Const(dtype=int32, value='int32: 1'); a = BarrierTakeMany(q, n, component_types=[string])",
}


@pytest.mark.parametrize("name", WAITS)
def test_step_that_waits_for_ever_ends(name: str) -> None:
    graph = graph_of(f"{WAITS[name]}; y = Identity(f, after=[a])")
    with (
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(errors.DeadlineExceededError, match="'a'"),
    ):
        session.run("y:0", {"f:0": b""}, options={"timeout_in_ms": 500})


THREADS: Final = {
    "a private pool": f"{_ONE}n = Const(dtype=int64, value='int64: 1000000000'); "
    f"e = PrivateThreadPoolDataset(d, n, {_STRING})",
    "parallel calls": f"{_ONE}n = Const(dtype=int64, value='int64: 1000000000'); "
    f"e = ParallelMapDatasetV2(d, [], n, f=same, Targuments=[], {_STRING})",
    "a prefetched dataset": f"{_ONE}m = Const(dtype=int64, value='int64: -1'); "
    f"r = RepeatDataset(d, m, {_STRING}); "
    "n = Const(dtype=int64, value='int64: 4611686018427387904'); "
    f"p = PrefetchDataset(r, n, {_STRING}); o = Const(dtype=int64, value='int64: 1'); "
    f"e = TakeDataset(p, o, {_STRING})",
}


@pytest.mark.parametrize("name", THREADS)
def test_number_of_threads_is_not_the_models(name: str) -> None:
    graph = graph_of(
        f"{THREADS[name]}; y = DatasetToSingleElement(e, {_STRING})",
        ("same(f: string) -> (string): y = Identity(f); return y",),
    )
    most = threading.active_count() + 40
    with graphmill.Session(graph=graph, trust=False) as session:
        assert session.run("y:0", {"f:0": b"x"}, options={"timeout_in_ms": 20_000}) == b"x"
        assert threading.active_count() < most


# --------------------------------------------------------------------------------- files of a model


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _terminal(path: Path) -> None:
    path.symlink_to("/dev/stdin")


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ODD: Final = (_pipe, _device, _terminal, _folder, _loop, _huge)
NEEDED: Final = (
    "saved_model.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
)
UNREAD: Final = (
    "fingerprint.pb",
    "keras_metadata.pb",
    "assets.extra/tf_serving_warmup_requests",
    "variables/checkpoint",
)
posix_only = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")


@posix_only
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
@pytest.mark.parametrize("file", NEEDED)
def test_file_of_a_model_that_is_no_file_is_a_typed_error(
    file: str, odd: Callable[[Path], None], tmp_path: Path
) -> None:
    model = checkpoint_model(tmp_path / "model")
    (model / file).unlink()
    odd(model / file)
    with pytest.raises(errors.OpError):
        saved_model.load(model)
    if file == "saved_model.pb":
        assert command_line("scan", str(model)) == 3
        assert command_line("show", str(model)) == 3


@posix_only
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
@pytest.mark.parametrize("file", UNREAD)
def test_further_file_of_a_model_is_not_read(
    file: str, odd: Callable[[Path], None], tmp_path: Path
) -> None:
    model = checkpoint_model(tmp_path / "model")
    (model / file).parent.mkdir(exist_ok=True)
    odd(model / file)
    with saved_model.load(model) as loaded:
        assert loaded.signatures["serving_default"]()["out"].tolist() == [1, 2]


# --------------------------------------------------------------------------- indexes of checkpoints

_HEADER: Final = proto.BundleHeaderProto(num_shards=1)
_HEADER.version.producer = 1


def _entry(**fields: Any) -> Any:
    entry = proto.BundleEntryProto(dtype=1, size=8, crc32c=1)
    entry.shape.dim.add(size=2)
    for name, value in fields.items():
        setattr(entry, name, value)
    return entry


def _shaped(*sizes: int, **fields: Any) -> Any:
    entry = _entry(**fields)
    del entry.shape.dim[:]
    for size in sizes:
        entry.shape.dim.add(size=size)
    return entry


def _sliced(count: int, start: int = 0, length: int = 1) -> Any:
    entry = _shaped(1 << 40, size=0)
    for _ in range(count):
        entry.slices.add().extent.add(start=start, length=length)
    return entry


INDEXES: Final[dict[str, Callable[[], dict[bytes, Any]]]] = {
    "a shard of a large number": lambda: {b"v": _entry(shard_id=2**31 - 1)},
    "a negative shard": lambda: {b"v": _entry(shard_id=-1)},
    "a large offset": lambda: {b"v": _entry(offset=2**63 - 1)},
    "a negative offset": lambda: {b"v": _entry(offset=-(2**63))},
    "a large size": lambda: {b"v": _entry(size=2**62)},
    "a negative size": lambda: {b"v": _entry(size=-8)},
    "another size": lambda: {b"v": _entry(size=4)},
    "a large shape": lambda: {b"v": _shaped(1 << 40, size=4 << 40)},
    "sizes that multiply to 2**64": lambda: {b"v": _shaped(1 << 32, 1 << 32, size=0)},
    "a negative dimension": lambda: {b"v": _shaped(-1)},
    "300 dimensions": lambda: {b"v": _shaped(*[1] * 300, size=4)},
    "an unknown type": lambda: {b"v": _entry(dtype=99)},
    "a resource": lambda: {b"v": _entry(dtype=20)},
    "a variant": lambda: {b"v": _entry(dtype=21)},
    "strings": lambda: {b"v": _entry(dtype=7)},
    "many slices": lambda: {b"v": _sliced(10_000)},
    "a large slice": lambda: {b"v": _sliced(1, length=1 << 40)},
    "a slice outside of the tensor": lambda: {b"v": _sliced(1, start=1 << 41)},
    "a negative slice": lambda: {b"v": _sliced(1, start=-5, length=-5)},
}
HEADERS: Final = {
    "many shards": proto.BundleHeaderProto(num_shards=2**31 - 1),
    "no shards": proto.BundleHeaderProto(num_shards=0),
    "negative shards": proto.BundleHeaderProto(num_shards=-5),
    "another byte order": proto.BundleHeaderProto(num_shards=1, endianness=7),
}


def write_index(prefix: Path, header: Any, entries: dict[bytes, Any]) -> None:
    """Write a checkpoint with this index, and eight bytes of data."""
    content = bytearray()
    table = TableWriter(content.extend)
    table.add(b"", header.SerializeToString())
    for key, entry in sorted(entries.items()):
        table.add(key, entry.SerializeToString())
    table.finish()
    prefix.with_suffix(".index").write_bytes(content)
    prefix.with_suffix(".data-00000-of-00001").write_bytes(bytes(8))


@pytest.mark.parametrize("name", [*INDEXES, *HEADERS])
def test_index_of_a_checkpoint_is_checked(name: str, tmp_path: Path) -> None:
    header = HEADERS.get(name, _HEADER)
    write_index(tmp_path / "model", header, INDEXES.get(name, lambda: {b"v": _entry()})())
    graph = graph_of(
        "n = Const(dtype=string, value=\"string: ['v']\"); "
        "s = Const(dtype=string, value=\"string: ['']\"); y = RestoreV2(f, n, s, dtypes=[float32])"
    )
    config = {"graphmill": {"memory_budget_bytes": BUDGET, "allow": [f"fs.read:{tmp_path}"]}}
    started = time.process_time()
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(errors.OpError) as caught,
    ):
        session.run("y:0", {"f:0": str(tmp_path / "model")})
    assert caught.value.node == "y"
    assert not isinstance(caught.value, errors.InternalError)
    with pytest.raises(errors.OpError), load_checkpoint(str(tmp_path / "model")) as reader:
        reader.get_tensor("v")
    assert time.process_time() - started < 10


def test_names_of_a_checkpoint_do_not_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = b"v\x1b]0;owned\x07\nforged\x1b[2K"
    write_index(tmp_path / "model", _HEADER, {name: _entry()})
    command_line("show", str(tmp_path / "model"))
    out, err = capsys.readouterr()
    assert "owned" in out
    assert not {"\x1b", "\x07"} & set(out + err)
    assert "\nforged" not in out


# ---------------------------------------------------------------------------- data with Python code


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("evil",)


def test_arrays_that_hold_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = checkpoint_model(tmp_path / "model")
    array = np.array([_Evil()], object)
    np.save(tmp_path / "evil.npy", array, allow_pickle=True)
    np.savez(tmp_path / "evil.npz", x=array)
    (tmp_path / "out").mkdir()
    np.save(tmp_path / "out" / "out.npy", array, allow_pickle=True)
    for words in (
        ["run", str(model), "x=@evil.npy"],
        ["run", str(model), "x=@evil.npz"],
        ["run", str(model), "x=@evil.npz[x]"],
        ["run", str(model), "--each", "evil.npz", "--out", "answers.npz"],
        ["compare", str(model), "--b", "out"],
        ["debug", "evil.npz", "-x", "continue"],
        ["debug", str(model), "--replay", "evil.npz", "-x", "continue"],
    ):
        assert command_line(*words) not in (0, 1), words
    assert not (tmp_path / "evil").exists()
