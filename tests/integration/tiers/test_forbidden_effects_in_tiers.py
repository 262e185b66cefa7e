"""Forbidden effects are refused in functions, loops and datasets, compiled or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.divided

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6  # a signature is compiled after the third one
SECRET: Final = b"the secret"


class Program(NamedTuple):
    """A graph that reads the file `f`, and fetches its contents."""

    functions: tuple[str, ...]
    nodes: tuple[str, ...]
    fetch: str = "y:0"
    calls: tuple[str, ...] = ()  # nodes whose op is a function: `name function input ...`


READ = "read_it(f: string) -> (string): read = ReadFile(f); return read"
PASS = "pass_on(f: string) -> (string): same = Identity(f); return same"
OUTER = "outer(f: string) -> (string): c = PartitionedCall([f], Tout=[string], f=read_it); return c"
LESS = "less(i: int32, f: string) -> (bool): n = Const(value='int32: 1', dtype=int32); "
LESS += "y = Less(i, n); return y"
ONE = "one = Const(value='int32: 1', dtype=int32); j = AddV2(i, one); "
STEP = f"step(i: int32, f: string) -> (int32, string): {ONE}read = ReadFile(f); return j, read"
BRANCHES = "[f], Tin=[string], Tout=[string], then_branch=read_it, else_branch=pass_on"
CHOICE = f"step(i: int32, f: string) -> (int32, string): {ONE}z = Const(value='int32: 0', "
CHOICE += f"dtype=int32); p = Equal(i, z); y = If(p, {BRANCHES}); return j, y"
TURN = "turn(i: int32, f: string) -> (string): read = ReadFile(f); return read"
V1_LOOP = (
    "ei = Enter(i, frame_name='f')",
    "en = Enter(n, frame_name='f', is_constant=True)",
    "mi = Merge([ei, ni])",
    "less = Less(mi, en)",
    "go = LoopCond(less)",
    "si = Switch(mi, go)",
    "bi = Identity(si[1])",
    "one = Const(dtype=int32, value='int32: 1', after=[bi])",
    "ji = AddV2(bi, one)",
    "ni = NextIteration(ji)",
    "yi = Exit(si[0])",
)
DATASET = (
    "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]])",
    "e = {op}(d, [], f={f}, Targuments=[], output_types=[string], output_shapes=[[]])",
    "y = DatasetToSingleElement(e, output_types=[string], output_shapes=[[]])",
)
TO_DATASET = "as_set(f: string) -> (variant): read = ReadFile(f); "
TO_DATASET += "d = TensorDataset([read], Toutput_types=[string], output_shapes=[[]]); return d"


def dataset(op: str, function: str) -> tuple[str, ...]:
    return tuple(node.format(op=op, f=function) for node in DATASET)


def loop(op: str) -> tuple[str, ...]:
    return (f"w = {op}([i, f], T=[int32, string], cond=less, body=step)",)


PROGRAMS = {
    "node": Program((), ("y = ReadFile(f)",)),
    "While": Program((LESS, STEP), loop("While"), "w:1"),
    "StatelessWhile": Program((LESS, STEP), loop("StatelessWhile"), "w:1"),
    "If": Program((READ, PASS), (f"y = If(p, {BRANCHES})",)),
    "StatelessIf": Program((READ, PASS), (f"y = StatelessIf(p, {BRANCHES})",)),
    "Case": Program(
        (READ, PASS),
        ("y = Case(i, [f], Tin=[string], Tout=[string], branches=[read_it, pass_on])",),
    ),
    "For": Program((TURN,), ("y = For(i, n, n, [f], body=turn)",)),
    "PartitionedCall": Program((READ,), ("y = PartitionedCall([f], Tout=[string], f=read_it)",)),
    "function as op": Program((READ,), (), calls=("y read_it f",)),
    "nested functions": Program((READ, OUTER), (), calls=("y outer f",)),
    "call beside a v1 loop": Program((READ,), V1_LOOP, calls=("y read_it f ^yi",)),
    "call in a v1 loop": Program(
        (READ,),
        (
            *V1_LOOP,
            "ef = Enter(f, frame_name='f')",
            "mf = Merge([ef, nf])",
            "sf = Switch(mf, go)",
            "read = PartitionedCall([sf[1]], Tout=[string], f=read_it)",
            "nf = NextIteration(read)",
            "y = Exit(sf[0])",
        ),
    ),
    "If in a While": Program(
        (
            READ,
            PASS,
            LESS,
            CHOICE,
        ),
        loop("While"),
        "w:1",
    ),
    "MapDataset": Program((READ,), dataset("MapDataset", "read_it")),
    "FlatMapDataset": Program((TO_DATASET,), dataset("FlatMapDataset", "as_set")),
}


def graph_def(program: Program) -> Any:
    maker = GraphMaker(graphmill.default_host().ops)
    for text in program.functions:
        maker.function(parse_function(text, {}))
    for name, value in FEEDS.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in program.nodes:
        maker.node(parse_node(text, {}))
    for text in program.calls:
        name, function, *inputs = text.split()
        maker.graph_def.node.add(name=name, op=function, input=inputs)
    return maker.graph_def


FEEDS = {"f": "string: ''", "i": "int32: 0", "n": "int32: 1", "p": "bool: True", "x": "float32: 2"}


def feeds(path: Path, **others: Any) -> dict[str, Any]:
    values = {"f": str(path).encode(), "i": 0, "n": 1, "p": True, "x": 2.0, **others}
    return {f"{name}:0": value for name, value in values.items()}


def session_of(program: Program, tier: str, *forbidden: str) -> graphmill.Session:
    config = {"graphmill": {"forbid_effects": list(forbidden), "jit": tier}}
    config["graphmill"]["jit_min_cluster_size"] = 1
    return graphmill.Session(graph=graph_def(program), config=config)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.txt"
    path.write_bytes(SECRET)
    return path


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_reads_the_file_without_restrictions(name: str, tier: str, secret: Path) -> None:
    program = PROGRAMS[name]
    with session_of(program, tier, "net") as session:
        for _ in range(STEPS):
            assert session.run(program.fetch, feeds(secret)) == SECRET
            graphmill.default_host().background.wait_idle(30)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_forbidden_node_is_refused_in_each_step(name: str, tier: str, secret: Path) -> None:
    program = PROGRAMS[name]
    with session_of(program, tier, "fs.read") as session:
        for _ in range(STEPS):
            with pytest.raises(errors.PermissionDeniedError, match="may read files") as caught:
                session.run(program.fetch, feeds(secret))
            assert caught.value.op_type == "ReadFile"
            assert "graphmill.forbid_effects" in str(caught.value)
            graphmill.default_host().background.wait_idle(30)


UNTAKEN: Final = {
    "If": ("If", {"p": False}),
    "StatelessIf": ("StatelessIf", {"p": False}),
    "Case": ("Case", {"i": 1}),
    "If in a While": ("If in a While", {"i": 1}),
    "While": ("While", {"i": 1}),
    "For": ("For", {"i": 1}),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", UNTAKEN)
def test_function_is_refused_when_it_is_called_and_not_before(
    name: str, tier: str, secret: Path
) -> None:
    of, others = UNTAKEN[name]
    program = PROGRAMS[of]
    with session_of(program, tier, "fs.read") as session:
        for _ in range(STEPS):
            assert session.run(program.fetch, feeds(secret, **others)) == str(secret).encode()
            graphmill.default_host().background.wait_idle(30)
        with pytest.raises(errors.PermissionDeniedError, match="may read files"):
            session.run(program.fetch, feeds(secret))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_callable_is_refused_in_each_step(name: str, tier: str, secret: Path) -> None:
    program, fed = PROGRAMS[name], feeds(secret)
    made: list[Any] = []

    def run(session: graphmill.Session) -> None:
        if not made:  # a node of the session's own graph is refused here
            made.append(session.make_callable(program.fetch, feed_list=list(fed)))
        made[0](*fed.values())

    with session_of(program, tier, "fs.read") as session:
        for _ in range(STEPS):
            with pytest.raises(errors.PermissionDeniedError, match="may read files"):
                run(session)
            graphmill.default_host().background.wait_idle(30)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_partial_run_is_refused(name: str, tier: str, secret: Path) -> None:
    program, fed = PROGRAMS[name], feeds(secret)

    def run(session: graphmill.Session) -> None:
        handle = session.partial_run_setup([program.fetch], list(fed))
        session.partial_run(handle, program.fetch, fed)

    with session_of(program, tier, "fs.read") as session:
        for _ in range(STEPS):
            with pytest.raises(errors.PermissionDeniedError, match="may read files"):
                run(session)
            graphmill.default_host().background.wait_idle(30)


class Sender:
    """A plugin whose traceable kernel uses the network."""

    @staticmethod
    @graphmill.hookimpl
    def graphmill_register_ops(ops: Any) -> None:
        float32 = dtypes.float32
        ops.add(OpDef("Mine>Send", (ArgDef("x", float32),), (ArgDef("y", float32),)))

    @staticmethod
    @graphmill.hookimpl
    def graphmill_register_kernels(kernels: Any) -> None:
        @graphmill.kernel("Mine>Send", effects=["net"])
        def send(xp: Any, x: Any) -> Any:
            return x + x

        kernels.add(send)


SENDING: Final = {
    "gradient": (
        "f(x: float32) -> (float32): s = Neg(x); return s",
        "y = SymbolicGradient([x, x], Tin=[float32, float32], Tout=[float32], f=f)",
    ),
    "XlaReduce": (
        "f(x: float32, z: float32) -> (float32): s = Neg(x); return s",
        "y = XlaReduce(v, x, dimensions_to_reduce=[0], reducer=f)",
    ),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", SENDING)
def test_function_that_no_executor_runs_is_refused(name: str, tier: str) -> None:
    """Forbidden effects are refused in functions that kernels compute without an executor."""
    host = graphmill.Host(plugins=[Sender])
    maker = GraphMaker(host.ops)
    function, node = SENDING[name]
    maker.function(parse_function(function, {}))
    send = maker.graph_def.library.function[0].node_def[0]
    send.op = "Mine>Send"
    send.attr.clear()
    for input_name, value in {"x": "float32: 2", "v": "float32[3]"}.items():
        maker.placeholder(input_name, parse_input(value, {}, input_name))
    maker.node(parse_node(node, {}))
    fed = {"x:0": 2.0, "v:0": np.ones(3)}
    with graphmill.Session(graph=maker.graph_def, host=host) as session:
        if name == "gradient":  # it would run the function, and its effect, again
            with pytest.raises(errors.UnimplementedError, match=r"has effects \(net\)"):
                session.run("y:0", fed)
        else:
            assert session.run("y:0", fed) == 4.0
    config = {"graphmill": {"forbid_effects": ["net"], "jit": tier}}
    with graphmill.Session(graph=maker.graph_def, config=config, host=host) as session:
        for _ in range(STEPS):
            with pytest.raises(
                errors.PermissionDeniedError, match="communicate with other machines"
            ):
                session.run("y:0", fed)
            host.background.wait_idle(30)
