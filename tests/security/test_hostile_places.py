"""Effects hidden in further functions of ops, and in the parts of a SavedModel beside its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.security.hostile import (
    EFFECTS,
    REFUSED,
    Effect,
    contents,
    make_targets,
    recorded,
)
from tests.security.test_hostile_models import constant

import graphmill
from graphmill import errors
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


_S: Final = "output_types=[string], output_shapes=[[]]"
_ONE: Final = f"y = DatasetToSingleElement(e, {_S})"
_ELEMENT: Final = "d = TensorDataset([f], Toutput_types=[string], output_shapes=[[]]); "
_NUMBER: Final = "q = Const(dtype=int64, value='int64: 1'); "
_TO_NUMBER: Final = (
    "key(f: string) -> (int64): c = PartitionedCall([f], Tout=[string], f=act); "
    "y = StringToHashBucketFast(c, num_buckets=1); return y"
)
_ZERO: Final = "zero(f: string) -> (int64): y = Const(dtype=int64, value='int64: 0'); return y"
_ONES: Final = "ones(f: string) -> (int64): y = Const(dtype=int64, value='int64: 1'); return y"
_KEEP: Final = (
    "keep(f: string) -> (bool): c = PartitionedCall([f], Tout=[string], f=act); "
    "z = Const(dtype=string, value=\"string: 'x'\"); y = NotEqual(c, z); return y"
)
_PASS: Final = "pass_on(f: string) -> (string): y = Identity(f); return y"
_SET: Final = (
    "as_set(f: string) -> (variant): c = PartitionedCall([f], Tout=[string], f=act); "
    "d = TensorDataset([c], Toutput_types=[string], output_shapes=[[]]); return d"
)
_WINDOW: Final = (
    "window(k: int64, w: variant) -> (variant): "
    f"e = DatasetToSingleElement(w, {_S}); c = PartitionedCall([e], Tout=[string], f=act); "
    "d = TensorDataset([c], Toutput_types=[string], output_shapes=[[]]); return d"
)
_PLAIN_WINDOW: Final = "window(k: int64, w: variant) -> (variant): y = Identity(w); return y"
_SIZE: Final = (
    "size(k: int64) -> (int64): s = AsString(k); c = PartitionedCall([s], Tout=[string], f=act); "
    "y = StringToHashBucketFast(c, num_buckets=1); return y"
)
_ONE_WINDOW: Final = "size(k: int64) -> (int64): y = Const(dtype=int64, value='int64: 1'); return y"
_REDUCER: Final = (
    "start(k: int64) -> (string): y = AsString(k); return y",
    (
        "add(s: string, f: string) -> (string): "
        "c = PartitionedCall([f], Tout=[string], f=act); return c"
    ),
    "end(s: string) -> (string): y = Identity(s); return y",
    _ZERO,
)
_GROUPS: Final = (
    f"{_ELEMENT}e = GroupByReducerDataset(d, [], [], [], [], key_func=zero, init_func=start, "
    f"reduce_func=add, finalize_func=end, {_S}, Tkey_func_other_arguments=[], "
    "Tinit_func_other_arguments=[], Treduce_func_other_arguments=[], "
    f"Tfinalize_func_other_arguments=[]); {_ONE}"
)


def _windows(key: str) -> str:
    return (
        f"{_ELEMENT}e = GroupByWindowDataset(d, [], [], [], key_func={key}, reduce_func=window, "
        f"window_size_func=size, {_S}, Tkey_func_other_arguments=[], "
        "Treduce_func_other_arguments=[], Twindow_size_func_other_arguments=[]); "
        f"{_ONE}"
    )


PLACES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "a function of rows": (
        (
            "r = ExpandDims(f, i); m = MapDefun([r], [], f=act, Targuments=[string], Tcaptured=[], "
            f"{_S}); y = Identity(m)"
        ),
        (),
    ),
    "a captured input of a function of rows": (
        (
            "r = ExpandDims(f, i); m = MapDefun([r], [f], f=second, Targuments=[string], "
            f"Tcaptured=[string], {_S}); y = Identity(m)"
        ),
        (
            (
                "second(x: string, f: string) -> (string): "
                "c = PartitionedCall([f], Tout=[string], f=act); return c"
            ),
        ),
    ),
    "a batched function": (
        (
            "r = ExpandDims(f, i); y = BatchFunction([r], [], f=rows, num_batch_threads=1, "
            "max_batch_size=1, batch_timeout_micros=0, Tin=[string], Tcaptured=[], Tout=[string])"
        ),
        (
            (
                "rows(x: string) -> (string): i = Const(dtype=int32, value='int32: [0]'); "
                "f = Squeeze(x); c = PartitionedCall([f], Tout=[string], f=act); "
                "o = Const(dtype=int32, value='int32: 0'); y = ExpandDims(c, o); return y"
            ),
        ),
    ),
    "the cond of a loop": (
        "w = While([f], T=[string], cond=keep, body=pass_on); y = Identity(w)",
        (_KEEP, _PASS),
    ),
    "the cond of a stateless loop": (
        "w = StatelessWhile([f], T=[string], cond=keep, body=pass_on); y = Identity(w)",
        (_KEEP, _PASS),
    ),
    "the body of a stateless loop": (
        "w = StatelessWhile([i, f], T=[int32, string], cond=less, body=step); y = Identity(w[1])",
        (
            (
                "less(i: int32, f: string) -> (bool): n = Const(value='int32: 1', dtype=int32); "
                "y = Less(i, n); return y"
            ),
            (
                "step(i: int32, f: string) -> (int32, string): "
                "one = Const(value='int32: 1', dtype=int32); j = AddV2(i, one); "
                "c = PartitionedCall([f], Tout=[string], f=act); return j, c"
            ),
        ),
    ),
    "the last branch of a stateless case": (
        "y = StatelessCase(n, [f], Tin=[string], Tout=[string], branches=[pass_on, act])",
        (_PASS,),
    ),
    "the else branch": (
        (
            "g = Const(dtype=bool, value='bool: False'); "
            "y = If(g, [f], Tin=[string], Tout=[string], then_branch=pass_on, else_branch=act)"
        ),
        (_PASS,),
    ),
    "a remote call to this task": (
        (
            "h = Const(dtype=string, value=\"string: '/job:localhost/task:0/device:CPU:0'\"); "
            "y = RemoteCall(h, [f], Tin=[string], Tout=[string], f=act)"
        ),
        (),
    ),
    "an iterator's factory": (
        f"t = OneShotIterator(dataset_factory=factory, {_S}); y = IteratorGetNext(t, {_S})",
        (
            (
                "factory() -> (variant): f = Const(dtype=string, value=\"string: '{path}'\"); "
                "c = PartitionedCall([f], Tout=[string], f=act); "
                "d = TensorDataset([c], Toutput_types=[string], output_shapes=[[]]); return d"
            ),
        ),
    ),
    "the key of groups": (
        _GROUPS.replace("key_func=zero", "key_func=key"),
        (*_REDUCER[:1], *_REDUCER[2:], _TO_NUMBER, _REDUCER[1]),
    ),
    "the sum of groups": (_GROUPS, _REDUCER),
    "the end of groups": (
        _GROUPS,
        (
            _REDUCER[0],
            "add(s: string, f: string) -> (string): y = Identity(f); return y",
            "end(s: string) -> (string): c = PartitionedCall([s], Tout=[string], f=act); return c",
            _ZERO,
        ),
    ),
    "the key of windows": (_windows("key"), (_TO_NUMBER, _PLAIN_WINDOW, _ONE_WINDOW)),
    "the reduction of windows": (_windows("zero"), (_ZERO, _WINDOW, _ONE_WINDOW)),
    "the condition of a beginning": (
        f"{_ELEMENT}e = TakeWhileDataset(d, [], predicate=keep, Targuments=[], {_S}); {_ONE}",
        (_KEEP,),
    ),
    "a parallel filter": (
        (
            f"{_ELEMENT}{_NUMBER}e = ParallelFilterDataset(d, [], q, predicate=keep, "
            f"Targuments=[], {_S}); {_ONE}"
        ),
        (_KEEP,),
    ),
    "a batched map": (
        (
            f"{_ELEMENT}{_NUMBER}b = Const(dtype=bool, value='bool: False'); "
            "e = MapAndBatchDataset(d, [], q, q, b, f=act, Targuments=[], output_types=[string], "
            "output_shapes=[[-1]]); m = DatasetToSingleElement(e, output_types=[string], "
            "output_shapes=[[-1]]); y = Identity(m)"
        ),
        (),
    ),
    "a parallel interleaving": (
        (
            f"{_ELEMENT}{_NUMBER}e = ParallelInterleaveDatasetV4(d, [], q, q, q, q, q, f=as_set, "
            f"Targuments=[], {_S}); {_ONE}"
        ),
        (_SET,),
    ),
    "an old parallel interleaving": (
        (
            f"{_ELEMENT}{_NUMBER}e = LegacyParallelInterleaveDatasetV2(d, [], q, q, q, q, "
            f"f=as_set, Targuments=[], {_S}); {_ONE}"
        ),
        (_SET,),
    ),
    "the start of a generator": (
        (
            f"{_NUMBER}g = GeneratorDataset([f], [], [], init_func=act, next_func=pass_on, "
            f"finalize_func=zero, Tinit_func_args=[string], Tnext_func_args=[], "
            f"Tfinalize_func_args=[], {_S}); e = TakeDataset(g, q, {_S}); {_ONE}"
        ),
        (_PASS, _ZERO),
    ),
    "the elements of a generator": (
        (
            f"{_NUMBER}g = GeneratorDataset([f], [], [], init_func=pass_on, next_func=act, "
            f"finalize_func=zero, Tinit_func_args=[string], Tnext_func_args=[], "
            f"Tfinalize_func_args=[], {_S}); e = TakeDataset(g, q, {_S}); {_ONE}"
        ),
        (_PASS, _ZERO),
    ),
    "a map whose errors are ignored": (
        (
            f"{_ELEMENT}m = MapDataset(d, [], f=act, Targuments=[], {_S}); "
            f"e = IgnoreErrorsDataset(m, {_S}); {_ONE}"
        ),
        (),
    ),
    "a map under options": (
        (
            f"{_ELEMENT}m = MapDataset(d, [], f=act, Targuments=[], {_S}); "
            f"e = OptionsDataset(m, serialized_options='\\x20\\x00\\x28\\x02', {_S}); {_ONE}"
        ),
        (),
    ),
    "an op that is watched": (
        (
            "c = PartitionedCall([f], Tout=[string], f=act); "
            "y = DebugIdentity(c, tensor_name='c:0', debug_urls=[])"
        ),
        (),
    ),
    "a control input": (
        "c = PartitionedCall([f], Tout=[string], f=act); y = Identity(f, after=[c])",
        (),
    ),
    "a control input of a constant": (
        (
            "c = PartitionedCall([f], Tout=[string], f=act); "
            "y = Const(dtype=string, value=\"string: 'harmless'\", after=[c])"
        ),
        (),
    ),
    "a function that is marked for a compiler": (
        "y = PartitionedCall([f], Tout=[string], f=act, _XlaMustCompile=True)",
        (),
    ),
    "a function that claims to be another": (
        (
            "y = StatefulPartitionedCall([f], Tout=[string], f=act, executor_type='', "
            "_implements='harmless', _api_implements='harmless')"
        ),
        (),
    ),
}
HIDDEN: Final = {name: EFFECTS[name] for name in ("read a file", "write a file")}


def hidden(effect: Effect, place: str, path: str) -> Any:
    """Return a graph with an effect at a place, and its path as a constant."""
    nodes, functions = PLACES[place]
    maker = GraphMaker(graphmill.default_host().ops)
    body = f"act(f: string) -> (string): {effect.nodes.replace('{path}', path)}; return y"
    maker.function(parse_function(body))
    for text in functions:
        maker.function(parse_function(text.replace("{path}", path)))
    maker.placeholder("f", parse_input("string: ''", {}, "f"))
    for name, number in (("i", 0), ("n", 1)):
        maker.node(parse_node(f"{name} = Const(dtype=int32, value='int32: {number}')"))
    for text in nodes.split("; "):
        maker.node(parse_node(text.strip()))
    for node in maker.graph_def.node:
        if node.name == "f":
            node.CopyFrom(constant("f", path))
    return maker.graph_def


def step(graph: Any, allow: tuple[str, ...]) -> Any:
    config = {"graphmill": {"jit": "off"}, "operation_timeout_in_ms": 60_000}
    with graphmill.Session(graph=graph, config=config, trust=False, allow=allow) as session:
        return session.run("y:0")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", HIDDEN)
def test_effect_is_refused_at_each_place_and_can_be_allowed(
    name: str, place: str, folder: Path
) -> None:
    effect = HIDDEN[name]
    graph = hidden(effect, place, str(folder / effect.path))
    before = contents(folder)
    with recorded(folder) as events, pytest.raises(errors.OpError) as caught:
        step(graph, ())
    assert events == []
    assert contents(folder) == before
    assert isinstance(caught.value, REFUSED)
    assert f"the op {effect.op} may not" in caught.value.message
    assert caught.value.node
    if "cond" not in place and "condition" not in place:  # what is written ends no loop
        with recorded(folder) as events:
            step(graph, tuple(rule.format(folder=folder) for rule in effect.rules))
        assert events
