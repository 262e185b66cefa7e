"""Hostile graphs: each effect as nodes, and the places of a graph where they can be hidden."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2

import graphmill
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node
from graphmill.tf_record import TFRecordWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Effect(NamedTuple):
    """Nodes with an effect, which read the path `f` and return the string `y`.

    Attributes:
        op: the op that is refused.
        nodes: the nodes; `{path}` stands for the path, where an attr holds it.
        path: the path in the folder that is attacked.
        rules: what allows it, `{folder}` is the folder.
        functions: further functions.
        error: the error that remains when it is allowed.
        asks: the effect that is refused first, if it is not that of the first rule.
    """

    op: str
    nodes: str
    path: str
    rules: tuple[str, ...]
    functions: tuple[str, ...] = ()
    error: type[graphmill.errors.OpError] | None = None
    asks: str = ""


REFUSED: Final = graphmill.errors.PermissionDeniedError
"""The error of a refused step, for any place of the node."""
HAS_LMDB: Final = importlib.util.find_spec("lmdb") is not None
READ: Final = ("fs.read:{folder}",)
LIST: Final = ("fs.list:{folder}",)
WRITE: Final = ("fs.write:{folder}",)
_NAMES = (
    "n = Const(dtype=string, value=\"string: ['t']\"); "
    "s = Const(dtype=string, value=\"string: ['']\"); "
    "o = Const(dtype=string, value=\"string: 't'\"); "
    "x = Const(dtype=float32, value='float32: [[1.0, 2.0], [3.0, 4.0]]'); "
)
_EMPTY = "z = Const(dtype=string, value=\"string: ''\"); "
_FILE = f"{_EMPTY}b = Const(dtype=int64, value='int64: 0'); "
_ONE = "y = DatasetToSingleElement(d, output_types=[string], output_shapes=[[]])"
_STRING = "output_types=[string], output_shapes=[[]]"
_SELF = "e = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
_NO_OFFSETS = "l = Const(dtype=int64, value='int64[0]'); "
_READER = (
    "q = FIFOQueueV2(component_types=[string], shapes=[[]]); p = QueueEnqueueV2(q, [f]); "
    "r = {op}; k = ReaderReadV2(r, q, after=[p]); y = Identity(k[1])"
)
_LENGTHS = "r = Const(dtype=int64, value='int64: 3'); "


def _then(nodes: str) -> str:
    """Return nodes after which a string is returned."""
    return f"{nodes}; y = Identity(f, after=[a])"


EFFECTS: Final[dict[str, Effect]] = {
    "read a file": Effect("ReadFile", "y = ReadFile(f)", "one.txt", READ),
    "write a file": Effect("WriteFile", _then("a = WriteFile(f, f)"), "new.txt", WRITE),
    "list a folder": Effect("MatchingFiles", _then("a = MatchingFiles(f)"), "*.txt", LIST),
    "read a checkpoint": Effect(
        "RestoreV2", _then(_NAMES + "a = RestoreV2(f, n, s, dtypes=[float32])"), "ckpt", READ
    ),
    "write a checkpoint": Effect(
        "SaveV2", _then(_NAMES + "a = SaveV2(f, n, s, [x], dtypes=[float32])"), "new", WRITE
    ),
    "read a slice": Effect(
        "RestoreSlice",
        _then(_NAMES + _EMPTY + "a = RestoreSlice(f, o, z, dt=float32)"),
        "v1",
        READ,
    ),
    "read an old checkpoint": Effect(
        "Restore", _then(_NAMES + "a = Restore(f, o, dt=float32)"), "v1", READ
    ),
    "write an old checkpoint": Effect(
        "Save", _then(_NAMES + "a = Save(f, n, [x], T=[float32])"), "new", WRITE
    ),
    "write slices": Effect(
        "SaveSlices", _then(_NAMES + "a = SaveSlices(f, n, s, [x], T=[float32])"), "new", WRITE
    ),
    "merge checkpoints": Effect(
        "MergeV2Checkpoints",
        _then(
            "m = Const(dtype=string, value=\"string: '-merged'\"); j = StringJoin([f, m]); "
            "p = Pack([f]); a = MergeV2Checkpoints(p, j)"
        ),
        "ckpt",
        WRITE,
    ),
    "remap a matrix": Effect(
        "LoadAndRemapMatrix",
        _then(
            _NAMES + "r = Const(dtype=int64, value='int64: [0, 1]'); "
            "c = Const(dtype=int64, value='int64[0]'); "
            "i = Const(dtype=float32, value='float32[0]'); "
            "a = LoadAndRemapMatrix(f, o, r, c, i, num_rows=2, num_cols=2)"
        ),
        "ckpt",
        READ,
    ),
    "remap a vocabulary": Effect(
        "GenerateVocabRemapping",
        _then("a = GenerateVocabRemapping(f, f, new_vocab_offset=0, num_new_vocab=1)"),
        "one.txt",
        READ,
    ),
    "fill a table": Effect(
        "InitializeTableFromTextFileV2",
        _then(
            "h = HashTableV2(key_dtype=string, value_dtype=int64); "
            "a = InitializeTableFromTextFileV2(h, f, key_index=-2, value_index=-1)"
        ),
        "one.txt",
        READ,
    ),
    "lines": Effect(
        "TextLineDataset", f"{_FILE}d = TextLineDataset(f, z, b); {_ONE}", "one.txt", READ
    ),
    "records": Effect(
        "TFRecordDataset", f"{_FILE}d = TFRecordDataset(f, z, b); {_ONE}", "one.tfrecord", READ
    ),
    "fixed lengths": Effect(
        "FixedLengthRecordDatasetV2",
        f"{_FILE}{_LENGTHS}d = FixedLengthRecordDatasetV2(f, b, r, b, b, z); {_ONE}",
        "one.txt",
        READ,
    ),
    "a query": Effect(
        "SqlDataset",
        "m = Const(dtype=string, value=\"string: 'sqlite'\"); "
        "q = Const(dtype=string, value=\"string: 'select a from t'\"); "
        f"d = SqlDataset(m, f, q, {_STRING}); {_ONE}",
        "db.sqlite",
        READ,
    ),
    "write records": Effect(
        "DatasetToTFRecord", _then(_FILE + _SELF + "a = DatasetToTFRecord(e, f, z)"), "new", WRITE
    ),
    "write a cache": Effect(
        "CacheDataset",
        f"{_SELF}d = CacheDataset(e, f, {_STRING}); {_ONE}",
        "new",
        WRITE,
        asks="fs.read",
    ),
    "save a dataset": Effect(
        "SaveDataset",
        _then(
            _SELF + "a = SaveDataset(e, f, [], shard_func=shard, Tshard_func_args=[], "
            "use_shard_func=True)"
        ),
        "new",
        WRITE,
        ("shard(x: string) -> (int64): y = Const(dtype=int64, value='int64: 0'); return y",),
    ),
    "list with a dataset": Effect(
        "MatchingFilesDataset", f"d = MatchingFilesDataset(f); {_ONE}", "one.t?t", LIST
    ),
    "list a snapshot": Effect(
        "ListSnapshotChunksDataset",
        f"d = ListSnapshotChunksDataset(f, {_STRING}); {_ONE}",
        "snapshot",
        READ + LIST,
    ),
    "an immutable constant": Effect(
        "ImmutableConst",
        _then("a = ImmutableConst(dtype=uint8, shape=[3], memory_region_name='{path}')"),
        "one.txt",
        READ,
    ),
    "random records": Effect(
        "RecordInput",
        _then("a = RecordInput(file_pattern='{path}', batch_size=1)"),
        "one.tfrecord",
        READ,
    ),
    "weights of classes": Effect(
        "FixedUnigramCandidateSampler",
        _then(
            "c = Const(dtype=int64, value='int64: [[0]]'); "
            "a = FixedUnigramCandidateSampler(c, num_true=1, num_sampled=1, unique=False, "
            "range_max=1, vocab_file='{path}')"
        ),
        "weights.txt",
        READ,
    ),
    "a message type": Effect(
        "DecodeProtoV2",
        _then(
            "z = Const(dtype=string, value=\"string: ['']\"); "
            "a = DecodeProtoV2(z, message_type='M', field_names=[], output_types=[], "
            "descriptor_source='{path}')"
        ),
        "types.pb",
        READ,
    ),
    "words": Effect(
        "Skipgram",
        _then("a = Skipgram(filename='{path}', batch_size=1, window_size=1, min_count=1)"),
        "words.txt",
        READ,
    ),
    "a reader": Effect(
        "WholeFileReaderV2",
        _READER.replace("{op}", "WholeFileReaderV2()"),
        "one.txt",
        READ,
    ),
    "summaries": Effect(
        "CreateSummaryFileWriter",
        _then(
            "h = SummaryWriter(shared_name='', container=''); "
            "i = Const(dtype=int32, value='int32: 1'); "
            "z = Const(dtype=string, value=\"string: ''\"); "
            "a = CreateSummaryFileWriter(h, f, i, i, z)"
        ),
        "events",
        WRITE,
    ),
    "a debug URL": Effect(
        "DebugIdentity",
        "y = DebugIdentity(f, tensor_name='f:0', debug_urls=['file://{path}'])",
        "dump",
        WRITE,
    ),
    "print to a file": Effect(
        "PrintV2",
        _then("a = PrintV2(f, output_stream='file://{path}')"),
        "log.txt",
        WRITE,
        error=graphmill.errors.UnimplementedError,
    ),
    "call Python": Effect(
        "PyFunc",
        "y = PyFunc([f], token='hostile.touch', Tout=[string])",
        "",
        ("python",),
        error=graphmill.errors.NotFoundError,
    ),
    "abort": Effect(
        "Abort", _then("a = Abort()"), "", ("process",), error=graphmill.errors.AbortedError
    ),
    "an LMDB database": Effect(
        "LMDBDataset",
        "d = LMDBDataset(f, output_types=[string, string], output_shapes=[[], []]); "
        "e = DatasetToSingleElement(d, output_types=[string, string], output_shapes=[[], []]); "
        "y = Identity(e[0])",
        "lmdb",
        READ,
        error=None if HAS_LMDB else graphmill.errors.UnimplementedError,
    ),
    "separated values": Effect(
        "CSVDatasetV2",
        f"{_FILE}{_NO_OFFSETS}h = Const(dtype=bool, value='bool: False'); "
        "m = Const(dtype=string, value=\"string: ','\"); "
        "v = Const(dtype=string, value=\"string: ['']\"); "
        "c = Const(dtype=int64, value='int64: 64'); "
        f"d = CSVDatasetV2(f, z, c, h, m, h, z, l, [v], l, {_STRING}); {_ONE}",
        "one.txt",
        READ,
    ),
    "records from an offset": Effect(
        "TFRecordDatasetV2",
        f"{_FILE}{_NO_OFFSETS}d = TFRecordDatasetV2(f, z, b, l); {_ONE}",
        "one.tfrecord",
        READ,
    ),
    "write a cache with a resource": Effect(
        "CacheDatasetV2",
        f"{_SELF}k = DummyMemoryCache(); d = CacheDatasetV2(e, f, k, {_STRING}); {_ONE}",
        "new",
        WRITE,
        asks="fs.read",
    ),
    "load a dataset": Effect(
        "LoadDataset",
        f"d = LoadDataset(f, [], reader_func=join, Treader_func_args=[], {_STRING}); {_ONE}",
        "one.txt",
        READ,
        ("join(x: variant) -> (variant): y = Identity(x); return y",),
        error=graphmill.errors.NotFoundError,
    ),
    "save a dataset as a dataset": Effect(
        "SaveDatasetV2",
        f"{_SELF}d = SaveDatasetV2(e, f, [], shard_func=shard, Tshard_func_args=[], {_STRING}); "
        f"{_ONE}",
        "new",
        WRITE,
        ("shard(x: string) -> (int64): y = Const(dtype=int64, value='int64: 0'); return y",),
    ),
    "write a snapshot": Effect(
        "SnapshotDatasetV2",
        f"{_SELF}d = SnapshotDatasetV2(e, f, [], [], reader_func=join, shard_func=shard, "
        f"Treader_func_args=[], Tshard_func_args=[], {_STRING}); {_ONE}",
        "new",
        WRITE,
        (
            "shard(x: string) -> (int64): y = Const(dtype=int64, value='int64: 0'); return y",
            "join(x: variant) -> (variant): y = Identity(x); return y",
        ),
        asks="fs.read",
    ),
    "a reader of lines": Effect(
        "TextLineReaderV2", _READER.replace("{op}", "TextLineReaderV2()"), "one.txt", READ
    ),
    "a reader of records": Effect(
        "TFRecordReaderV2", _READER.replace("{op}", "TFRecordReaderV2()"), "one.tfrecord", READ
    ),
    "a reader of fixed lengths": Effect(
        "FixedLengthRecordReaderV2",
        _READER.replace("{op}", "FixedLengthRecordReaderV2(record_bytes=3)"),
        "one.txt",
        READ,
    ),
    "encode a message": Effect(
        "EncodeProto",
        _then(
            "z = Const(dtype=int32, value='int32: [[1]]'); "
            "a = EncodeProto(z, [z], message_type='M', field_names=['i'], "
            "descriptor_source='{path}', Tinput_types=[int32])"
        ),
        "types.pb",
        READ,
    ),
    "list with an old dataset": Effect(
        "ExperimentalMatchingFilesDataset",
        f"d = ExperimentalMatchingFilesDataset(f); {_ONE}",
        "one.t?t",
        LIST,
    ),
    "an op without a kernel": Effect(
        "DumpTensor",
        _then(
            "a = DumpTensor(f, log_dir_path='{path}', file_name='x', enabled=True, func_name='', "
            "node_name='')"
        ),
        "dump",
        ("fs.write",),
        error=graphmill.errors.NotFoundError,
    ),
}


class Place(NamedTuple):
    """A place in a graph that calls the function `act` with the string `f`.

    Attributes:
        functions: further functions.
        nodes: the nodes that call it.
        fetch: the result.
        calls: nodes whose op is a function: `name function input ...`.
    """

    functions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    fetch: str = "y:0"
    calls: tuple[str, ...] = ()


_PASS = "pass_on(f: string) -> (string): same = Identity(f); return same"
_OUTER = "outer(f: string) -> (string): c = PartitionedCall([f], Tout=[string], f=act); return c"
_LESS = (
    "less(i: int32, f: string) -> (bool): n = Const(value='int32: 1', dtype=int32); "
    "y = Less(i, n); return y"
)
_STEP = (
    "step(i: int32, f: string) -> (int32, string): one = Const(value='int32: 1', dtype=int32); "
    "j = AddV2(i, one); c = PartitionedCall([f], Tout=[string], f=act); return j, c"
)
_BRANCHES = "[f], Tin=[string], Tout=[string], then_branch=act, else_branch=pass_on"
_TO_DATASET = (
    "as_set(f: string) -> (variant): c = PartitionedCall([f], Tout=[string], f=act); "
    "d = TensorDataset([c], Toutput_types=[string], output_shapes=[[]]); return d"
)
_TURN = (
    "turn(i: int32, f: string) -> (string): c = PartitionedCall([f], Tout=[string], f=act); "
    "return c"
)


def _dataset(op: str, function: str) -> tuple[str, ...]:
    return (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]])",
        f"e = {op}(d, [], f={function}, Targuments=[], {_STRING})",
        f"y = DatasetToSingleElement(e, {_STRING})",
    )


PLACES: Final[dict[str, Place]] = {
    "the graph": Place(),
    "a call": Place(nodes=("y = PartitionedCall([f], Tout=[string], f=act)",)),
    "a stateful call": Place(nodes=("y = StatefulPartitionedCall([f], Tout=[string], f=act)",)),
    "a function as op": Place(calls=("y act f",)),
    "a nested function": Place((_OUTER,), calls=("y outer f",)),
    "If": Place((_PASS,), (f"y = If(p, {_BRANCHES})",)),
    "StatelessIf": Place((_PASS,), (f"y = StatelessIf(p, {_BRANCHES})",)),
    "Case": Place(
        (_PASS,), ("y = Case(i, [f], Tin=[string], Tout=[string], branches=[act, pass_on])",)
    ),
    "While": Place(
        (_LESS, _STEP), ("w = While([i, f], T=[int32, string], cond=less, body=step)",), "w:1"
    ),
    "For": Place((_TURN,), ("y = For(i, n, n, [f], body=turn)",)),
    "a loop of frames": Place(
        (),
        (
            "ei = Enter(i, frame_name='g')",
            "en = Enter(n, frame_name='g', is_constant=True)",
            "mi = Merge([ei, ni])",
            "less = Less(mi, en)",
            "go = LoopCond(less)",
            "si = Switch(mi, go)",
            "bi = Identity(si[1])",
            "one = Const(dtype=int32, value='int32: 1', after=[bi])",
            "ji = AddV2(bi, one)",
            "ni = NextIteration(ji)",
            "ef = Enter(f, frame_name='g')",
            "mf = Merge([ef, nf])",
            "sf = Switch(mf, go)",
            "c = PartitionedCall([sf[1]], Tout=[string], f=act)",
            "nf = NextIteration(c)",
            "y = Exit(sf[0])",
        ),
    ),
    "a branch of a Switch": Place(
        (),
        (
            "sf = Switch(f, p)",
            "c = PartitionedCall([sf[1]], Tout=[string], f=act)",
            "y = Merge([sf[0], c])",
        ),
    ),
    "MapDataset": Place((), _dataset("MapDataset", "act")),
    "FlatMapDataset": Place((_TO_DATASET,), _dataset("FlatMapDataset", "as_set")),
}
FEEDS: Final = {"f": "string: ''", "i": "int32: 0", "n": "int32: 1", "p": "bool: True"}


def hidden_graph(effect: Effect, place: Place, path: str) -> graphmill.GraphDef:
    """Return a graph with an effect at a place; its path is fed to `f`, or in an attr."""
    nodes = effect.nodes.replace("{path}", path)
    maker = GraphMaker(graphmill.default_host().ops)
    for text in effect.functions:
        maker.function(parse_function(text))
    is_called = place is not PLACES["the graph"]
    if is_called:
        maker.function(parse_function(f"act(f: string) -> (string): {nodes}; return y"))
    for text in place.functions:
        maker.function(parse_function(text))
    for name, value in FEEDS.items():
        if is_called or name == "f":
            maker.placeholder(name, parse_input(value, {}, name))
    for text in place.nodes if is_called else nodes.split("; "):
        maker.node(parse_node(text))
    for text in place.calls:
        name, function, *inputs = text.split()
        maker.graph_def.node.add(name=name, op=function, input=inputs)
    return maker.graph_def


def feeds(place: Place, path: str) -> dict[str, Any]:
    """Return the feeds of a graph with an effect at a place."""
    others = {} if place is PLACES["the graph"] else {"i:0": 0, "n:0": 1, "p:0": True}
    return {"f:0": path.encode(), **others}


def make_targets(folder: Path) -> None:
    """Fill a folder with the files that the effects target."""
    folder.mkdir(parents=True)
    (folder / "one.txt").write_bytes(b"abc")
    (folder / "weights.txt").write_bytes(b"1.0\n")
    (folder / "words.txt").write_bytes(b"a b c d e f g h i j k l m n o p " * 20)
    (folder / "snapshot" / "chunks").mkdir(parents=True)
    (folder / "snapshot" / "chunks" / "chunk_0_0_1").touch()
    (folder / "snapshot" / "DONE").touch()
    with TFRecordWriter(folder / "one.tfrecord") as writer:
        writer.write(b"abc")
    value = np.ones((2, 2), np.float32)
    with BundleWriter(folder / "ckpt") as bundle:
        bundle.add("t", value)
    from graphmill.dtypes import float32
    from graphmill.saved.v1_checkpoint import V1Writer

    old = V1Writer(str(folder / "v1"))
    old.add("t", value, float32)
    old.finish()
    database = sqlite3.connect(folder / "db.sqlite")
    database.execute("create table t (a text)")
    database.execute("insert into t values ('abc')")
    database.commit()
    database.close()
    if HAS_LMDB:
        make_lmdb(folder / "lmdb")
    file = descriptor_pb2.FileDescriptorProto(name="m.proto")
    message = file.message_type.add(name="M")
    message.field.add(name="i", number=1, type=5, label=1)
    types = descriptor_pb2.FileDescriptorSet(file=[file])
    (folder / "types.pb").write_bytes(types.SerializeToString())


def make_lmdb(folder: Path) -> None:
    """Write an LMDB database with one key."""
    lmdb = importlib.import_module("lmdb")
    with lmdb.open(str(folder)) as environment, environment.begin(write=True) as writer:
        writer.put(b"key", b"abc")


class _Recorder:
    """Records the accesses of the process to files below a folder, by an audit hook.

    An audit hook cannot be removed, so there is one for the process.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.found: list[str] = []
        self.is_added = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder or event.startswith(("import", "compile", "exec", "object.", "sys.")):
            return
        if event.startswith(("socket.connect", "subprocess.", "os.system", "os.kill", "os.fork")):
            self.found.append(event)
        elif any(self.folder in str(argument) for argument in arguments):
            self.found.append(f"{event} {arguments}")


_RECORDER: Final = _Recorder()


@contextmanager
def recorded(folder: Path) -> Iterator[list[str]]:
    """Collect the events of a `with` block that touch a folder, the network or processes."""
    if not _RECORDER.is_added:
        _RECORDER.is_added = True
        sys.addaudithook(_RECORDER)
    _RECORDER.folder, _RECORDER.found = str(folder), []
    try:
        yield _RECORDER.found
    finally:
        _RECORDER.folder = ""


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return time and content of each file, and the folders, below a folder."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }
