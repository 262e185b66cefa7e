"""Ways out of the rules that combine several features, and input that fills memory or time."""

from __future__ import annotations

import base64
import gzip
import io
import os
import struct
import threading
import time
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.security.hostile import (
    EFFECTS,
    PLACES,
    REFUSED,
    contents,
    feeds,
    hidden_graph,
    make_targets,
    recorded,
)

import graphmill
from graphmill import errors, proto, saved_model
from graphmill.saved.bundle_writer import BundleWriter
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node
from graphmill.tf_record import frame

if TYPE_CHECKING:
    from pathlib import Path

BUDGET: Final = 64 << 20
_STRING: Final = "output_types=[string], output_shapes=[[]]"
_READ: Final = "act(f: string) -> (string): y = ReadFile(f); return y"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


def graph_of(nodes: str, functions: tuple[str, ...] = ()) -> graphmill.GraphDef:
    """Return a graph whose placeholder `f` is a path."""
    maker = GraphMaker(graphmill.default_host().ops)
    for text in functions:
        maker.function(parse_function(text))
    maker.placeholder("f", parse_input("string: ''", {}, "f"))
    for text in nodes.split("; "):
        maker.node(parse_node(text))
    return maker.graph_def


def refused(graph: graphmill.GraphDef, path: Any, folder: Path, op: str = "ReadFile") -> None:
    """Check that a step is refused with node and op, and touches nothing."""
    before = contents(folder)
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(REFUSED, match=f"the op {op} may not") as caught,
    ):
        session.run("y:0", {"f:0": path})
    assert events == []
    assert caught.value.node
    assert caught.value.op_type == op
    assert contents(folder) == before


# ------------------------------------------------------------------------ functions in functions

_INNER = (
    _READ,
    (
        "deep(f: string) -> (variant): d = TensorDataset([f], Toutput_types=[string], "
        "output_shapes=[[]]); e = MapDataset(d, [], f=act, Targuments=[], output_types=[string], "
        "output_shapes=[[]]); return e"
    ),
)
NESTED: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "a dataset in a function of a dataset": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            f"e = FlatMapDataset(d, [], f=deep, Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        _INNER,
    ),
    "two levels of datasets in functions": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            f"e = FlatMapDataset(d, [], f=deeper, Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        (
            *_INNER,
            (
                "deeper(f: string) -> (variant): d = TensorDataset([f], Toutput_types=[string], "
                "output_shapes=[[]]); e = FlatMapDataset(d, [], f=deep, Targuments=[], "
                "output_types=[string], output_shapes=[[]]); return e"
            ),
        ),
    ),
    "a filter": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            f"e = FilterDataset(d, [], predicate=keep, Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        (
            (
                "keep(f: string) -> (bool): c = ReadFile(f); z = Const(dtype=string, "
                "value=\"string: 'x'\"); y = NotEqual(c, z); return y"
            ),
        ),
    ),
    "an interleaved dataset": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            "n = Const(dtype=int64, value='int64: 1'); "
            f"e = InterleaveDataset(d, [], n, n, f=deep, Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        _INNER,
    ),
    "parallel calls": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            "n = Const(dtype=int64, value='int64: 4'); "
            f"e = ParallelMapDatasetV2(d, [], n, f=act, Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        (_READ,),
    ),
    "a prefetched call": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            f"m = MapDataset(d, [], f=act, Targuments=[], {_STRING}); "
            "n = Const(dtype=int64, value='int64: 4'); "
            f"e = PrefetchDataset(m, n, {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        (_READ,),
    ),
    "a reduction": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            "z = Const(dtype=string, value=\"string: ''\"); "
            f"y = ReduceDataset(d, [z], [], f=last, Tstate=[string], Targuments=[], {_STRING})"
        ),
        ("last(s: string, f: string) -> (string): y = ReadFile(f); return y",),
    ),
    "a scan": (
        (
            "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
            "z = Const(dtype=string, value=\"string: ''\"); "
            f"e = ScanDataset(d, [z], [], f=scan, Tstate=[string], Targuments=[], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        ("scan(s: string, f: string) -> (string, string): y = ReadFile(f); return y, y",),
    ),
    "a call of all rows": (
        (
            "z = Const(dtype=int32, value='int32: 0'); v = ExpandDims(f, z); "
            "m = MapDefun([v], [], f=act, Targuments=[string], Tcaptured=[], "
            "output_types=[string], output_shapes=[[]]); y = Identity(m)"
        ),
        (_READ,),
    ),
    "an argument that is captured": (
        (
            "n = Const(dtype=int64, value='int64: 0'); o = Const(dtype=int64, value='int64: 1'); "
            "d = RangeDataset(n, o, o, output_types=[int64], output_shapes=[[]]); "
            f"e = MapDataset(d, [f], f=taken, Targuments=[string], {_STRING}); "
            f"y = DatasetToSingleElement(e, {_STRING})"
        ),
        ("taken(i: int64, f: string) -> (string): y = ReadFile(f); return y",),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_read_in_nested_functions_is_refused(name: str, folder: Path) -> None:
    nodes, functions = NESTED[name]
    refused(graph_of(nodes, functions), str(folder / "one.txt"), folder)


# ------------------------------------------------------------------- names that the graph computes

COMPUTED: Final[dict[str, tuple[str, Any]]] = {
    "base64": ("p = DecodeBase64(f)", lambda text: base64.urlsafe_b64encode(text).rstrip(b"=")),
    "compressed": (
        "p = DecodeCompressed(f, compression_type='ZLIB')",
        lambda text: zlib.compress(text),
    ),
    "a part": (
        (
            "b = Const(dtype=int32, value='int32: 3'); "
            "l = Const(dtype=int32, value='int32: 4096'); p = Substr(f, b, l)"
        ),
        lambda text: b"xyz" + text,
    ),
    "replaced": (
        "p = StaticRegexReplace(f, pattern='@+', rewrite='/')",
        lambda text: text.replace(b"/", b"@@"),
    ),
    "a format": ("p = StringFormat([f], template='%s', placeholder='%s', T=[string])", None),
    "another encoding": (
        (
            "p = UnicodeTranscode(f, input_encoding='UTF-16', output_encoding='UTF-8', "
            "errors='strict')"
        ),
        lambda text: text.decode().encode("utf-16-be"),
    ),
    "code points": (
        (
            "u = UnicodeDecode(f, input_encoding='UTF-8', Tsplits=int64); "
            "e = UnicodeEncode(u[1], u[0], output_encoding='UTF-8', Tsplits=int64); "
            "z = Const(dtype=int32, value='int32: []'); p = Reshape(e, z)"
        ),
        lambda text: text,
    ),
    "stripped": ("p = StringStrip(f)", lambda text: b" \n" + text + b"\t"),
    "joined parts": (
        (
            "z = Const(dtype=int32, value='int32: 0'); v = ExpandDims(f, z); "
            "s = Const(dtype=string, value=\"string: '@'\"); q = StringSplitV2(v, s); "
            "p = ReduceJoin(q[1], z, separator='/')"
        ),
        lambda text: text.replace(b"/", b"@"),
    ),
    "a serialized tensor": ("p = ParseTensor(f, out_type=string)", "tensor"),
    "JSON": (
        (
            "e = DecodeJSONExample(f); n = Const(dtype=string, value='string[0]'); "
            "k = Const(dtype=string, value=\"string: 'p'\"); "
            "x = ParseSingleExample(e, [k], num_sparse=0, sparse_keys=[], dense_keys=['p'], "
            "sparse_types=[], Tdense=[string], dense_shapes=[[]]); p = Identity(x)"
        ),
        lambda text: (
            b'{"features":{"feature":{"p":{"bytesList":{"value":["'
            + base64.b64encode(text)
            + b'"]}}}}}'
        ),
    ),
}


def _hidden(name: str, text: bytes) -> bytes:
    encode = COMPUTED[name][1]
    if encode is None:
        return text
    if encode == "tensor":
        message = proto.TensorProto(dtype=7, string_val=[text])
        message.tensor_shape.SetInParent()
        return message.SerializeToString()
    return bytes(encode(text))


@pytest.mark.parametrize("name", COMPUTED)
def test_path_that_the_graph_computes_is_refused(name: str, folder: Path) -> None:
    path = os.fsencode(folder / "one.txt")
    graph = graph_of(f"{COMPUTED[name][0]}; y = ReadFile(p)")
    with graphmill.Session(graph=graph, trust=True) as session:
        found = session.run("p:0", {"f:0": _hidden(name, path)})
    assert bytes(found).strip(b'"') == path
    refused(graph, _hidden(name, path), folder)


# ---------------------------------------------------------------------------------- forms of a path

FORMS: Final = (
    "FILE://{path}",
    "file:{path}",
    "file://localhost{path}",
    "file:///../..{path}",
    "local://{path}",
    "simplecache::{path}",
    "filecache::file://{path}",
    "blockcache::file://{path}",
    "zip://one.txt::{path}",
    "tar://one.txt::file://{path}",
    "dir::file://{path}",
    "reference://::{path}",
    "cached:///{path}",
    "asynclocal://{path}",
    "arrow_hdfs://{path}",
    "data:;base64,{path}",
    "http://127.0.0.1:9/{path}",
    "ftp://127.0.0.1:9/{path}",
    "sftp://127.0.0.1/{path}",
    "github://a:b@c/{path}",
    "s3://bucket/{path}",
    "{slashes}{path}",
    "{path}/",
    "{path}/.",
    "{path}\x00",
    "{path}\x00.txt",
    "~/../../../../../../..{path}",
    "/proc/self/fd/../root{path}",
    "/proc/1/root{path}",
    "/dev/fd/../../../..{path}",
    "\\\\?\\{path}",
)


@pytest.mark.parametrize("rules", [[], ["fs.read:{free}"], ["fs.write:{free}", "fs.list:/proc"]])
@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_path_is_read(
    form: str, rules: list[str], folder: Path, tmp_path: Path
) -> None:
    free = tmp_path / "free"
    free.mkdir()
    path = form.format(path=folder / "one.txt", slashes="/" * 4000)
    allow = [rule.format(free=free) for rule in rules]
    graph = graph_of("y = ReadFile(f)")
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, allow=allow) as session,
        pytest.raises(errors.OpError) as caught,
    ):
        session.run("y:0", {"f:0": path})
    assert events == []
    assert caught.value.node == "y"
    assert type(caught.value) in (
        errors.RefusedEffectError,
        errors.PermissionDeniedError,  # the system's, for the root of another process
        errors.NotFoundError,  # a relative path in an allowed folder
        errors.InvalidArgumentError,  # NUL
    )


def test_reading_every_file_is_not_the_network(folder: Path) -> None:
    """`fs.read` without a path allows local files only: a URL could send data to others."""
    graph = graph_of("y = ReadFile(f)")
    with graphmill.Session(graph=graph, allow=["fs.read"]) as session:
        assert session.run("y:0", {"f:0": str(folder / "one.txt")}) == b"abc"
        with pytest.raises(REFUSED, match=r"allow=\['fs\.read:http:"):
            session.run("y:0", {"f:0": "http://127.0.0.1:9/one.txt"})


# --------------------------------------------------------------------------------- files of a model


def checkpoint_model(folder: Path) -> Path:
    """Write a model that restores a variable and returns it."""
    graph = graphmill.Graph()
    with graph.as_default():
        variable = graphmill.Variable(np.float32([1, 2]), name="v")
        output = graphmill.ops.array.identity(variable.read_value(), name="out")
    with graphmill.Session(graph=graph) as session:
        session.run(variable.initializer)
        signature = saved_model.build_signature_def({}, {"out": output})
        saved_model.save(session, folder, {"serving_default": signature})
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return checkpoint_model(tmp_path / "model")


def evil_variables(folder: Path) -> Path:
    """Write a checkpoint with another value of the variable beside the model."""
    folder.mkdir()
    with BundleWriter(folder / "variables") as bundle:
        bundle.add("v", np.float32([6, 6]))
    return folder


def test_model_restores_its_variable(model: Path) -> None:
    with saved_model.load(model) as loaded:
        assert loaded.signatures["serving_default"]()["out"].tolist() == [1, 2]


@pytest.mark.parametrize("name", ["variables.data-00000-of-00001", "variables.index"])
def test_variables_that_are_links_out_of_the_model_are_refused(
    name: str, model: Path, tmp_path: Path
) -> None:
    evil = evil_variables(tmp_path / "evil")
    (model / "variables" / name).unlink()
    (model / "variables" / name).symlink_to(evil / name)
    with recorded(evil) as events, pytest.raises(REFUSED, match="may not read") as caught:
        saved_model.load(model)
    assert caught.value.op_type == "RestoreV2"
    assert events == []


def test_folder_of_variables_that_is_a_link_is_refused(model: Path, tmp_path: Path) -> None:
    evil = evil_variables(tmp_path / "evil")
    (model / "variables").rename(tmp_path / "moved")
    (model / "variables").symlink_to(evil)
    with recorded(evil) as events, pytest.raises(REFUSED, match="may not read"):
        saved_model.load(model)
    assert [event for event in events if "O_PATH" not in event] == events == []


def test_shards_outside_of_the_model_are_refused(model: Path, tmp_path: Path) -> None:
    """The index names a second shard; the file of that name is a link."""
    evil = evil_variables(tmp_path / "evil")
    data = model / "variables" / "variables.data-00000-of-00001"
    index = model / "variables" / "variables.index"
    header = proto.BundleHeaderProto(num_shards=1).SerializeToString()
    content = index.read_bytes()
    assert header in content  # the header is damaged, or names shards that are not there
    data.rename(data.with_name("variables.data-00000-of-00002"))
    data.with_name("variables.data-00001-of-00002").symlink_to(evil / data.name)
    with recorded(evil) as events, pytest.raises(errors.OpError):
        saved_model.load(model)
    assert events == []


def test_variables_swapped_for_a_link_during_loads_are_not_followed(
    model: Path, tmp_path: Path
) -> None:
    evil = evil_variables(tmp_path / "evil")
    real, link = model / "real", model / "link"
    (model / "variables").rename(real)
    link.symlink_to(evil)
    has_ended = threading.Event()

    def swap() -> None:
        while not has_ended.is_set():
            for other in (real, link):
                other.rename(model / "variables")
                (model / "variables").rename(other)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            try:
                with saved_model.load(model) as loaded:
                    found = loaded.signatures["serving_default"]()["out"].tolist()
            except errors.OpError:
                continue  # a race may be lost in many ways, but not by reading the other file
            assert found == [1, 2]
    finally:
        has_ended.set()
        thread.join()


@pytest.mark.parametrize("prefix", ["variables/../../evil/variables", "./variables/.././../evil/x"])
def test_prefix_that_leaves_the_model_is_refused(prefix: str, model: Path, tmp_path: Path) -> None:
    evil = evil_variables(tmp_path / "evil")
    graph = graph_of(
        "n = Const(dtype=string, value=\"string: ['v']\"); "
        "s = Const(dtype=string, value=\"string: ['']\"); y = RestoreV2(f, n, s, dtypes=[float32])"
    )
    with (
        recorded(evil) as events,
        graphmill.Session(graph=graph, allow=[f"fs.read:{model}"]) as session,
        pytest.raises(REFUSED, match="the op RestoreV2 may not"),
    ):
        session.run("y:0", {"f:0": f"{model}/{prefix}"})
    assert events == []


@pytest.mark.parametrize("pattern", ["v?", "*", "v1-?????-of-?????"])
def test_old_checkpoint_of_a_pattern_lists_no_other_folder(pattern: str, folder: Path) -> None:
    graph = graph_of(
        "n = Const(dtype=string, value=\"string: 't'\"); y = Restore(f, n, dt=float32)"
    )
    refused(graph, str(folder / pattern), folder, "Restore")


# ------------------------------------------------------------------------------------ other effects

CALLS: Final = {
    "PyFunc": "y = PyFunc([f], token='pyfunc_0', Tout=[string])",
    "PyFuncStateless": "y = PyFuncStateless([f], token='pyfunc_0', Tout=[string])",
    "EagerPyFunc": "y = EagerPyFunc([f], token='pyfunc_0', Tout=[string])",
    "RegisterDatasetV2": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "i = RegisterDatasetV2(d, f, f, external_state_policy=0); y = Identity(f, after=[i])"
    ),
    "Abort": "a = Abort(error_msg='x', exit_without_error=True); y = Identity(f, after=[a])",
    "DebugIdentityV2": (
        "y = DebugIdentityV2(f, tfdbg_context_id='x', op_name='x', output_slot=0, "
        "tensor_debug_mode=2, debug_urls=['file:///tmp/hostile-dump'])"
    ),
}


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("is_in_a_dataset", [False, True])
def test_call_out_of_the_graph_is_refused(op: str, is_in_a_dataset: bool, folder: Path) -> None:
    nodes = CALLS[op]
    if not is_in_a_dataset:
        refused(graph_of(nodes, (_READ,)), b"grpc://127.0.0.1:9", folder, op)
        return
    body = f"body(f: string) -> (string): {nodes}; return y"
    dataset = (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        f"e = MapDataset(d, [], f=body, Targuments=[], {_STRING}); "
        f"y = DatasetToSingleElement(e, {_STRING})"
    )
    refused(graph_of(dataset, (_READ, body)), b"grpc://127.0.0.1:9", folder, op)


@pytest.mark.parametrize("region", ["/proc/self/environ", "/proc/self/mem", "/dev/zero"])
def test_process_memory_is_not_read_as_a_constant(region: str, folder: Path) -> None:
    nodes = f"a = ImmutableConst(dtype=uint8, shape=[3], memory_region_name='{region}')"
    refused(graph_of(f"{nodes}; y = Identity(f, after=[a])"), b"", folder, "ImmutableConst")


def test_graph_in_a_string_in_a_string_is_refused(folder: Path) -> None:
    source = graph_of(
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        f"e = MapDataset(d, [], f=act, Targuments=[], {_STRING}); "
        "y = DatasetToGraphV2(e, external_state_policy=1)",
        (_READ,),
    )
    outer = graph_of(
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        f"e = FlatMapDataset(d, [], f=unpack, Targuments=[], {_STRING}); "
        "y = DatasetToGraphV2(e, external_state_policy=1)",
        ("unpack(g: string) -> (variant): d = DatasetFromGraph(g); return d",),
    )
    carried: Any = str(folder / "one.txt")
    for graph in (source, outer):
        with graphmill.Session(graph=graph) as session:
            carried = session.run("y:0", {"f:0": carried})
    reader = graph_of(f"d = DatasetFromGraph(f); y = DatasetToSingleElement(d, {_STRING})")
    with graphmill.Session(graph=reader) as session:
        assert session.run("y:0", {"f:0": carried}) == b"abc"
    refused(reader, carried, folder)


def test_function_with_the_name_of_an_op_hides_nothing() -> None:
    graph = graph_of("y = Identity(f)")
    maker = GraphMaker(graphmill.default_host().ops)
    maker.function(parse_function("Identity(f: string) -> (string): y = ReadFile(f); return y"))
    graph.library.CopyFrom(maker.graph_def.library)
    with pytest.raises(errors.InvalidArgumentError, match="same name"):
        graphmill.Session(graph=graph, trust=False)


@pytest.mark.parametrize("label", ["unrestricted", "host", "numpy"])
def test_attr_that_chooses_a_kernel_chooses_no_other_rules(label: str, folder: Path) -> None:
    graph = hidden_graph(EFFECTS["read a file"], PLACES["the graph"], "")
    for node in graph.node:
        node.attr["_kernel"].s = label.encode()
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(errors.OpError),
    ):
        session.run("y:0", feeds(PLACES["the graph"], str(folder / "one.txt")))
    assert events == []


HOST_CALLBACK: Final = """
module @hostile {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = func.call @inner(%arg0) : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
  func.func private @inner(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.custom_call @TARGET(%arg0) {
      api_version = 4 : i32, backend_config = {index = 0 : ui64}
    } : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""


def program(text: str) -> bytes:
    """Return a StableHLO program in the form of XlaCallModule."""
    mlir = pytest.importorskip("jax.interpreters.mlir")
    ir = pytest.importorskip("jaxlib.mlir.ir")
    stablehlo = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        version = stablehlo.get_current_version()
        return bytes(stablehlo.serialize_portable_artifact_str(str(module), version))


def xla_graph(module: bytes) -> graphmill.GraphDef:
    graph = graphmill.GraphDef()
    source = graph.node.add(name="x", op="Placeholder")
    source.attr["dtype"].type = 1
    source.attr["shape"].shape.unknown_rank = True
    node = graph.node.add(name="y", op="XlaCallModule", input=["x"])
    node.attr["module"].s = module
    node.attr["version"].i = 9
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["Sout"].list.shape.add().dim.add(size=3)
    node.attr["platforms"].list.s.append(b"CPU")
    return graph


@pytest.mark.parametrize("tier", ["off", "eager"])
@pytest.mark.parametrize(
    "target", ["xla_ffi_python_cpu_callback", "xla_python_cpu_callback", "lapack_spotrf_ffi"]
)
def test_program_that_calls_the_process_is_refused(target: str, tier: str) -> None:
    graph = xla_graph(program(HOST_CALLBACK.replace("TARGET", target)))
    config = {"graphmill": {"policy": "pure", "jit": tier, "jit_min_cluster_size": 1}}
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(REFUSED, match=r"XlaCallModule may not call Python.*'python'") as caught,
    ):
        session.run("y:0", {"x:0": np.ones(3, np.float32)})
    assert (caught.value.node, caught.value.op_type) == ("y", "XlaCallModule")


def test_program_that_only_computes_is_run() -> None:
    text = """
    module @harmless {
      func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
        return %0 : tensor<3xf32>
      }
    }
    """
    with graphmill.Session(graph=xla_graph(program(text)), trust=False) as session:
        assert session.run("y:0", {"x:0": np.ones(3, np.float32)}).tolist() == [2, 2, 2]
    with (
        graphmill.Session(graph=xla_graph(b"no program"), trust=False) as session,
        pytest.raises(errors.InvalidArgumentError, match="not a StableHLO program"),
    ):
        session.run("y:0", {"x:0": np.ones(3, np.float32)})


WITHOUT_KERNELS: Final = {
    "XlaCustomCall": "XlaCustomCall([f], target_name='exit', backend_config='', T=[string], "
    "dtype=float32, shape=[1])",
    "XlaCustomCallV2": "XlaCustomCallV2([f], call_target_name='exit', backend_config='', "
    "has_side_effect=True, operand_dtypes=[string], result_dtypes=[float32], result_shapes=[[1]])",
    "FileSystemSetConfiguration": "FileSystemSetConfiguration(f, f, f)",
}


@pytest.mark.parametrize("op", WITHOUT_KERNELS)
def test_op_without_a_kernel_is_refused_for_its_effect(op: str, folder: Path) -> None:
    graph = graph_of(f"a = {WITHOUT_KERNELS[op]}; y = Identity(f, after=[a])")
    refused(graph, b"text", folder, op)


# ------------------------------------------------------------------------------- memory and time


def bounded(graph: graphmill.GraphDef, value: Any, allow: list[str] | None = None) -> None:
    """Check that a step is refused for its memory, or that its node reports damaged data."""
    config = {"graphmill": {"memory_budget_bytes": BUDGET, "policy": "pure", "allow": allow or []}}
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises((errors.ResourceExhaustedError, errors.DataLossError)) as caught,
    ):
        session.run("y:0", {"f:0": value})
    assert caught.value.node


def png(width: int, height: int) -> bytes:
    """Return a PNG of black pixels, whose rows are compressed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    row = bytes(1 + 3 * width)
    rows = b"".join(packer.compress(row) for _ in range(min(height, 100))) + packer.flush()
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b""))
    )


def gif(width: int, height: int, frames: int) -> bytes:
    """Return a GIF whose frames have one pixel, on a large screen."""
    start = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    frame = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return start + frame * frames + b";"


def bmp(width: int, height: int) -> bytes:
    """Return the header of a BMP without pixels."""
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info


def zeros(size: int) -> bytes:
    """Return compressed zeros."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return out.getvalue()


IMAGES: Final = {
    "png": ("DecodePng(f)", lambda: png(20_000, 20_000)),
    "image": ("DecodeImage(f)", lambda: png(20_000, 20_000)),
    "gif": ("DecodeGif(f)", lambda: gif(4_000, 4_000, 50)),
    "bmp": ("DecodeBmp(f)", lambda: bmp(30_000, 30_000)),
    "frames of an image": (
        "DecodeImage(f, expand_animations=True)",
        lambda: gif(4_000, 4_000, 50),
    ),
    "text": ("DecodeCompressed(f, compression_type='GZIP')", lambda: zeros(200 << 20)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_decompressed_data_are_bounded(name: str) -> None:
    node, content = IMAGES[name]
    graph = graph_of(f"y = {node}")
    config = {"graphmill": {"memory_budget_bytes": BUDGET, "policy": "pure"}}
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises((errors.ResourceExhaustedError, errors.InvalidArgumentError)) as caught,
    ):
        session.run("y:0", {"f:0": content()})
    assert caught.value.node == "y"


_FILE = (
    "z = Const(dtype=string, value=\"string: 'GZIP'\"); b = Const(dtype=int64, value='int64: 0'); "
)
_ONE = f"y = DatasetToSingleElement(d, {_STRING})"
FILES: Final = {
    "lines": f"{_FILE}d = TextLineDataset(f, z, b); {_ONE}",
    "records": f"{_FILE}d = TFRecordDataset(f, z, b); {_ONE}",
    "fixed lengths": (
        f"{_FILE}r = Const(dtype=int64, value='int64: 150000000'); "
        f"d = FixedLengthRecordDatasetV2(f, b, r, b, b, z); {_ONE}"
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_decompressed_files_are_bounded(name: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    if name == "records":  # a record of 150 MB
        size = 150 << 20
        out = io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb") as file:
            file.write(frame(bytes(size))[:12])
            for _ in range(150):
                file.write(bytes(1 << 20))
            file.write(bytes(4))
        path.write_bytes(out.getvalue())
    else:
        path.write_bytes(zeros(200 << 20))
    bounded(graph_of(FILES[name]), str(path), [f"fs.read:{tmp_path}"])


QUERIES: Final = {
    "counts": (
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"
    ),
    "strings": "select printf('%.*c', 1000000000, 'x')",
    "blobs": "select hex(zeroblob(500000000))",
}


@pytest.mark.parametrize("name", QUERIES)
def test_queries_are_bounded(name: str, folder: Path) -> None:
    graph = graph_of(
        "m = Const(dtype=string, value=\"string: 'sqlite'\"); p = Const(dtype=string, "
        "value=\"string: ':memory:'\"); "
        f"d = SqlDataset(m, p, f, {_STRING}); {_ONE}"
    )
    config = {"graphmill": {"memory_budget_bytes": BUDGET, "policy": "pure", "allow": ["fs.read"]}}
    started = time.monotonic()
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(
            (errors.DeadlineExceededError, errors.ResourceExhaustedError, errors.UnknownError)
        ),
    ):
        session.run("y:0", {"f:0": QUERIES[name]}, options={"timeout_in_ms": 1000})
    assert time.monotonic() - started < 20


SLEEPS: Final = {
    "SleepDataset": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "n = Const(dtype=int64, value='int64: 9223372036854775807'); "
        f"e = SleepDataset(d, n, {_STRING}); y = DatasetToSingleElement(e, {_STRING})"
    ),
    "a dataset without elements": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "n = Const(dtype=int64, value='int64: -1'); "
        f"r = RepeatDataset(d, n, {_STRING}); "
        f"e = FilterDataset(r, [], predicate=never, Targuments=[], {_STRING}); "
        f"y = DatasetToSingleElement(e, {_STRING})"
    ),
    "a skip": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "n = Const(dtype=int64, value='int64: -1'); "
        f"r = RepeatDataset(d, n, {_STRING}); "
        "s = Const(dtype=int64, value='int64: 9223372036854775807'); "
        f"e = SkipDataset(r, s, {_STRING}); y = DatasetToSingleElement(e, {_STRING})"
    ),
    "a large batch": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "n = Const(dtype=int64, value='int64: -1'); "
        f"r = RepeatDataset(d, n, {_STRING}); "
        "s = Const(dtype=int64, value='int64: 9223372036854775807'); "
        "b = Const(dtype=bool, value='bool: False'); "
        "e = BatchDatasetV2(r, s, b, output_types=[string], output_shapes=[[-1]]); "
        "m = DatasetToSingleElement(e, output_types=[string], output_shapes=[[-1]]); "
        "y = Size(m)"
    ),
    "a shuffle": (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        "n = Const(dtype=int64, value='int64: -1'); "
        f"r = RepeatDataset(d, n, {_STRING}); "
        "s = Const(dtype=int64, value='int64: 4611686018427387904'); "
        f"e = ShuffleDataset(r, s, s, s, {_STRING}); y = DatasetToSingleElement(e, {_STRING})"
    ),
}
_NEVER = ("never(f: string) -> (bool): y = Const(dtype=bool, value='bool: False'); return y",)


@pytest.mark.parametrize("name", SLEEPS)
def test_step_that_never_ends_is_ended(name: str) -> None:
    """Its thread ends, too: the session's only one then serves another dataset."""
    other = (
        "p = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
        f"z = DatasetToSingleElement(p, {_STRING}); "
    )
    graph = graph_of(other + SLEEPS[name], _NEVER)
    config = {
        "graphmill": {"memory_budget_bytes": BUDGET, "policy": "pure", "jit": "off"},
        "inter_op_parallelism_threads": 1,
        "use_per_session_threads": True,
    }
    started = time.monotonic()
    with graphmill.Session(graph=graph, config=config) as session:
        with pytest.raises((errors.DeadlineExceededError, errors.ResourceExhaustedError)):
            session.run("y:0", {"f:0": b""}, options={"timeout_in_ms": 1000})
        assert session.run("z:0", {"f:0": b"other"}, options={"timeout_in_ms": 20_000}) == b"other"
    assert time.monotonic() - started < 40
