"""Effects are refused in every way to run a graph, and in every spelling of paths."""

from __future__ import annotations

import importlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from graphmill import errors
from graphmill.access.policy_config import PURE
from graphmill.access.restricted_broker import RestrictedBroker
from graphmill.access.rules import AccessRules
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from collections.abc import Callable

CONTRIB: Final = Path(__file__).parents[2] / "contrib_devices"
TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6  # a signature is compiled after the third one
SOME: Final = ("read a file", "write a file", "lines", "a debug URL", "abort", "call Python")
EXECUTORS: Final = ("DEFAULT", "INLINE", "SINGLE_THREADED_EXECUTOR")
DEVICES: Final = {"LOOPBACK": "graphmill_loopback", "SIMNPU": "graphmill_simnpu"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("place", ["a call", "While", "a loop of frames", "MapDataset"])
@pytest.mark.parametrize("name", SOME)
def test_effect_is_refused_in_each_step_of_a_tier(
    name: str, place: str, tier: str, folder: Path
) -> None:
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], PLACES[place], path)
    config = {"graphmill": {"policy": PURE, "jit": tier, "jit_min_cluster_size": 1}}
    before = contents(folder)
    with graphmill.Session(graph=graph, config=config) as session:
        for _ in range(STEPS):
            with recorded(folder) as events, pytest.raises(REFUSED, match="may not"):
                session.run(PLACES[place].fetch, feeds(PLACES[place], path))
            assert events == []
            graphmill.default_host().background.wait_idle(30)
    assert contents(folder) == before


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", EFFECTS)
def test_effect_is_refused_by_each_executor(name: str, executor: str, folder: Path) -> None:
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], PLACES["a call"], path)
    config = {"experimental": {"executor_type": executor}}
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, config=config, trust=False) as session,
        pytest.raises(REFUSED, match="may not") as caught,
    ):
        session.run("y:0", feeds(PLACES["a call"], path))
    assert f"the op {EFFECTS[name].op} may not" in caught.value.message
    assert events == []


def _by_callable(session: graphmill.Session, fed: dict[str, Any]) -> None:
    session.make_callable("y:0", list(fed))(*fed.values())


def _by_options(session: graphmill.Session, fed: dict[str, Any]) -> None:
    options = graphmill.proto.CallableOptions(feed=list(fed), fetch=["y:0"])
    session.make_callable_from_options(options)(*fed.values())


def _by_target(session: graphmill.Session, fed: dict[str, Any]) -> None:
    session.run([], fed, targets=["y"])


def _piece_by_piece(session: graphmill.Session, fed: dict[str, Any]) -> None:
    handle = session.partial_run_setup(["y:0"], list(fed))
    session.partial_run(handle, "y:0", fed)


def _traced(session: graphmill.Session, fed: dict[str, Any]) -> None:
    session.run("y:0", fed, options={"trace_level": "FULL_TRACE"}, run_metadata=None)


@pytest.mark.parametrize(
    "call",
    [_by_callable, _by_options, _by_target, _piece_by_piece, _traced],
    ids=lambda call: call.__name__,
)
@pytest.mark.parametrize("name", SOME)
def test_effect_is_refused_in_each_kind_of_step(
    name: str, call: Callable[..., None], folder: Path
) -> None:
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], PLACES["a nested function"], path)
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, trust=False) as session,
        pytest.raises(REFUSED, match="may not"),
    ):
        call(session, feeds(PLACES["a nested function"], path))
    assert events == []


SPELLINGS: Final[dict[str, Callable[[Path], str]]] = {
    "plain": str,
    "slashes": lambda path: str(path).replace("/", "//"),
    "three slashes": lambda path: f"//{path}",
    "dots": lambda path: f"{path.parent}/./{path.name}",
    "parent": lambda path: f"{path.parent}/../{path.parent.name}/{path.name}",
    "out of the allowed folder": lambda path: f"{path.parents[1]}/free/../target/{path.name}",
    "deep": lambda path: "/" + "../" * 40 + str(path),
    "file URL": lambda path: f"file://{path}",
    "local URL": lambda path: f"local://{path}",
    "file URL with slashes": lambda path: f"file:////{path}",
    "root of the process": lambda path: f"/proc/self/root{path}",
    "working folder of the process": lambda path: f"/proc/self/cwd/{os.path.relpath(path)}",
    "root of the thread": lambda path: f"/proc/thread-self/root{path}",
    "link": lambda path: str(path.parents[1] / "free" / "link"),
    "link to the folder": lambda path: str(path.parents[1] / "free" / "folder" / path.name),
    "chain of links": lambda path: str(path.parents[1] / "free" / "again"),
    "chained URL": lambda path: f"simplecache::file://{path}",
    "chained memory URL": lambda path: f"memory://x::file://{path}",
    "relative": lambda path: os.path.relpath(path),
}


@pytest.fixture
def free(folder: Path) -> Path:
    """A folder that the rules allow, with links out of it."""
    made = folder.parent / "free"
    made.mkdir()
    (made / "link").symlink_to(folder / "one.txt")
    (made / "folder").symlink_to(folder)
    (made / "again").symlink_to(made / "link")
    (made / "mine.txt").write_bytes(b"mine")
    return made


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", ["read a file", "write a file", "lines"])
def test_no_spelling_of_a_path_leaves_the_allowed_folder(
    name: str, spelling: str, folder: Path, free: Path
) -> None:
    path = SPELLINGS[spelling](folder / "one.txt")
    before = contents(folder)
    graph = hidden_graph(EFFECTS[name], PLACES["the graph"], path)
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, allow=[f"fs.write:{free}"]) as session,
        pytest.raises(REFUSED, match="may not"),
    ):
        session.run("y:0", feeds(PLACES["the graph"], path))
    assert events == []
    assert contents(folder) == before


def test_a_path_through_a_link_within_the_folder_is_read(free: Path) -> None:
    (free / "inner").symlink_to(free / "mine.txt")
    graph = hidden_graph(EFFECTS["read a file"], PLACES["the graph"], "")
    with graphmill.Session(graph=graph, allow=[f"fs.read:{free}"]) as session:
        assert session.run("y:0", {"f:0": str(free / "inner")}) == b"mine"
        assert session.run("y:0", {"f:0": f"file://{free}/mine.txt"}) == b"mine"


def test_a_path_computed_in_the_graph_is_refused(folder: Path) -> None:
    maker = GraphMaker(graphmill.default_host().ops)
    maker.placeholder("a", parse_input("string: ''", {}, "a"))
    maker.placeholder("b", parse_input("string: ''", {}, "b"))
    for text in ("f = StringJoin([a, b], separator='/')", "y = ReadFile(f)"):
        maker.node(parse_node(text))
    with (
        graphmill.Session(graph=maker.graph_def, allow=[f"fs.read:{folder}/snapshot"]) as session,
        pytest.raises(errors.PermissionDeniedError, match=r"one\.txt") as caught,
    ):
        session.run("y:0", {"a:0": f"{folder}/snapshot/..", "b:0": "one.txt"})
    assert (caught.value.op_type, caught.value.node) == ("ReadFile", "y")


@pytest.mark.parametrize("path", ["one.txt", "weights.txt"])
def test_a_graph_carried_in_a_string_is_refused(path: str, folder: Path) -> None:
    source = GraphMaker(graphmill.default_host().ops)
    source.function(parse_function("act(f: string) -> (string): y = ReadFile(f); return y"))
    source.placeholder("f", parse_input("string: ''", {}, "f"))
    for text in (
        "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]])",
        "e = MapDataset(d, [], f=act, Targuments=[], output_types=[string], output_shapes=[[]])",
        "g = DatasetToGraphV2(e, external_state_policy=1)",
    ):
        source.node(parse_node(text))
    with graphmill.Session(graph=source.graph_def) as session:
        carried = session.run("g:0", {"f:0": str(folder / path)})
    maker = GraphMaker(graphmill.default_host().ops)
    maker.placeholder("g", parse_input("string: ''", {}, "g"))
    for text in (
        "d = DatasetFromGraph(g)",
        "y = DatasetToSingleElement(d, output_types=[string], output_shapes=[[]])",
    ):
        maker.node(parse_node(text))
    with graphmill.Session(graph=maker.graph_def, trust=True) as session:
        assert session.run("y:0", {"g:0": carried})
    with (
        recorded(folder) as events,
        graphmill.Session(graph=maker.graph_def, trust=False) as session,
        pytest.raises(errors.PermissionDeniedError, match="ReadFile"),
    ):
        session.run("y:0", {"g:0": carried})
    assert events == []


@pytest.mark.parametrize("is_folder", [True, False])
def test_a_reader_of_lmdb_opens_through_its_broker(is_folder: bool, folder: Path) -> None:
    pytest.importorskip("lmdb")
    path = folder / "lmdb" if is_folder else folder / "lmdb" / "data.mdb"
    graph = graphmill.Graph()
    with graph.as_default():
        reader = graphmill.ops.io.lmdb_reader(name="reader")
        names = graphmill.ops.data_flow.fifo_queue(component_types=["string"], shapes=[[]])
        unit = graph.placeholder("string", shape=[], name="f")
        enqueue = graphmill.ops.data_flow.queue_enqueue(names, [unit])
        pair = graphmill.ops.io.reader_read(reader, names)
    fed = {"f:0": str(path)}
    with graphmill.Session(graph=graph, allow=[f"fs.read:{folder}/snapshot"]) as session:
        session.run(enqueue, fed)
        with recorded(folder) as events, pytest.raises(REFUSED, match="may not read") as caught:
            session.run(list(pair))
    assert (caught.value.op_type, caught.value.node) == ("LMDBReader", "reader")
    assert events == []
    for allow in ([f"fs.read:{folder}"], [f"fs.read:{folder}/lmdb"]):
        with graphmill.Session(graph=graph, allow=allow) as session:
            session.run(enqueue, fed)
            assert list(map(bytes, session.run(list(pair)))) == [b"key", b"abc"]


def test_a_linked_lmdb_database_is_refused(folder: Path, free: Path) -> None:
    pytest.importorskip("lmdb")
    (free / "database").mkdir()
    (free / "database" / "data.mdb").symlink_to(folder / "lmdb" / "data.mdb")
    graph = hidden_graph(EFFECTS["an LMDB database"], PLACES["the graph"], "")
    with (
        graphmill.Session(graph=graph, allow=[f"fs.read:{free}"]) as session,
        pytest.raises(REFUSED, match="may not read"),
    ):
        session.run("y:0", {"f:0": str(free / "database")})


@pytest.mark.parametrize("statement", ["vacuum into", "attach database"])
def test_a_query_reaches_no_other_file(statement: str, folder: Path) -> None:
    other = folder.parent / "other.sqlite"
    effect = EFFECTS["a query"]
    end = " as x" if statement.startswith("attach") else ""
    nodes = effect.nodes.replace("select a from t", f'{statement} \\"{other}\\"{end}')
    effect = effect._replace(nodes=nodes)
    graph = hidden_graph(effect, PLACES["the graph"], "")
    with (
        graphmill.Session(graph=graph, allow=[f"fs.write:{folder.parent}"]) as session,
        pytest.raises(errors.OpError, match=r"not authorized|authorization denied"),
    ):
        session.run("y:0", {"f:0": str(folder / "db.sqlite")})
    assert not other.exists()


def test_a_pipe_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name in ("read a file", "write a file"):
        graph = hidden_graph(EFFECTS[name], PLACES["the graph"], "")
        with (
            graphmill.Session(graph=graph, allow=[f"fs.write:{folder}"]) as session,
            pytest.raises(errors.FailedPreconditionError),
        ):
            session.run("y:0", {"f:0": str(folder / "pipe")})


def test_a_folder_swapped_for_a_link_is_not_followed(folder: Path) -> None:
    """A folder that is replaced by a link while files below it are opened is not followed."""
    free = folder.parent / "free"
    (free / "real").mkdir(parents=True)
    (free / "real" / "one.txt").write_bytes(b"allowed")
    (free / "evil").symlink_to(folder)
    rules = AccessRules.parse([f"fs.read:{free}"])
    broker = RestrictedBroker(EffectsPolicy(rules=(rules,)), "node", "ReadFile")
    has_ended = threading.Event()

    def swap() -> None:
        while not has_ended.is_set():
            for name in ("real", "evil"):
                (free / name).rename(free / "now")
                (free / "now").rename(free / name)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(2000):
            try:
                assert broker.read_bytes(f"{free}/now/one.txt") == b"allowed"
            except errors.OpError:  # a race may be lost in many ways, but not by reading
                continue
    finally:
        has_ended.set()
        thread.join()


def test_a_kernel_without_a_broker_is_refused_for_the_whole_effect() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            @graphmill.kernel("ReadFile", host=True, priority=100, effects=["fs.read"])
            def read(filename: Any) -> Any:
                raise AssertionError(filename)

            kernels.add(read)

    host = graphmill.Host(plugins=[Plugin()])
    graph = hidden_graph(EFFECTS["read a file"], PLACES["the graph"], "")
    for allow in ([], ["fs.read:/"]):
        with (
            graphmill.Session(graph=graph, host=host, allow=allow) as session,
            pytest.raises(errors.PermissionDeniedError, match=r"'fs\.read'"),
        ):
            session.run("y:0", {"f:0": "/etc/hosts"})
    with (
        graphmill.Session(graph=graph, host=host, allow=["fs.read"]) as session,
        pytest.raises(errors.InternalError, match="/etc/hosts"),
    ):
        session.run("y:0", {"f:0": "/etc/hosts"})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("place", ["the graph", "a call", "MapDataset"])
@pytest.mark.parametrize("name", SOME)
def test_effect_is_refused_on_the_device_of_a_plugin(
    name: str, place: str, device: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = DEVICES[device].replace("_", "-")
    monkeypatch.syspath_prepend(str(CONTRIB / project))
    host = graphmill.Host(plugins=[importlib.import_module(DEVICES[device])])
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], PLACES[place], path)
    for node in graph.node:
        node.device = f"/device:{device}:0"
    config = {"allow_soft_placement": True, "graphmill": {"policy": PURE}}
    with (
        recorded(folder) as events,
        graphmill.Session(graph=graph, host=host, config=config) as session,
        pytest.raises(REFUSED, match="may not") as caught,
    ):
        session.run(PLACES[place].fetch, feeds(PLACES[place], path))
    assert f"the op {EFFECTS[name].op} may not" in caught.value.message
    assert events == []
