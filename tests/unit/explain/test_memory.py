"""Memory of a step: lifetimes, peaks and their holders, forecast from shapes."""

from __future__ import annotations

import graphmill
from graphmill import ops
from graphmill.explain.memory import Lifetime, alive_bytes, peaks
from graphmill.explain.memory_forecast import MemoryForecast, forecast_memory


def test_peaks_list_live_values_largest_first() -> None:
    lifetimes = [
        Lifetime("a", "d", 10, 0, 2),
        Lifetime("b", "d", 30, 1, 3),
        Lifetime("c", "d", 20, 3, 4),
        Lifetime("e", "other", 1, 0, 9),
    ]
    found = peaks(lifetimes)
    assert (found["d"].num_bytes, found["d"].time) == (50, 3)
    assert [one.node for one in found["d"].holders] == ["b", "c"]
    assert found["other"].num_bytes == 1
    assert list(alive_bytes(lifetimes))[-1] == (9, "other", 0)


def test_no_live_values_have_no_peak() -> None:
    assert peaks([]) == {}


def forecast(graph: graphmill.Graph, fetch: str, *shapes: tuple[int, ...] | None) -> MemoryForecast:
    with graphmill.Session(graph=graph) as session:
        step = session.step_graph(fetch, ["x:0"])
        return forecast_memory(step, session.host.ops, shapes)


def chain() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 4], name="x")
        a = ops.math.exp(x, name="a")
        b = ops.array.identity(ops.math.neg(a, name="b"), name="same")
        ops.math.add_v2(b, graph.constant([1.0] * 4), name="c")
    return graph


def test_an_output_lives_until_its_last_consumer() -> None:
    found = forecast(chain(), "c:0", (10, 4))
    (peak,) = found.peaks.values()
    assert peak.num_bytes == 320
    assert {one.node for one in peak.holders} == {"_arg_x_0_0", "a"}
    assert found.unknown == ()
    assert found.num_constant_bytes == 16


def test_a_forwarded_output_holds_the_memory_of_its_input() -> None:
    found = forecast(chain(), "c:0", (10, 4))
    with graphmill.Session(graph=chain()) as session:
        step = session.step_graph("same:0", ["x:0"])
        kept = forecast_memory(step, session.host.ops, [(10, 4)])
    held = {one.node for peak in kept.peaks.values() for one in peak.holders}
    assert "same" not in held
    assert found.order.index("b") < found.order.index("c")


def test_unknown_shapes_are_listed_and_not_counted() -> None:
    found = forecast(chain(), "c:0", None)
    assert found.peaks == {}
    assert "a" in found.unknown
    assert found.as_dict()["num_constant_bytes"] == 16


def test_a_loop_is_forecast() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        last = graphmill.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a * 2.0), [graph.constant(0), x]
        )
        ops.array.identity(last[1], name="out")
    (peak,) = forecast(graph, "out:0", (100,)).peaks.values()
    assert peak.num_bytes >= 800
