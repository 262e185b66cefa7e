"""Sessions on servers support what local sessions support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, train

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("grpc")
pytest.importorskip("google_crc32c")


class Program:
    """A counting step, and arithmetic."""

    def __init__(self) -> None:
        self.graph = graphmill.Graph()
        with self.graph.as_default():
            self.x = self.graph.placeholder("float32", [2], name="x")
            self.y = ops.math.mul(self.x, self.x, name="y")
            self.z = ops.math.add_v2(self.y, np.float32(1), name="z")
            self.text = ops.string.string_upper(
                self.graph.placeholder("string", [None], name="words"), name="upper"
            )
            self.checked = ops.array.check_numerics(self.x, message=b"nan!", name="checked")
            self.steps = train.get_or_create_global_step()
            self.step = self.steps.assign_add(1)
            self.init = graphmill.global_variables_initializer()


@pytest.fixture
def program() -> Program:
    return Program()


def test_a_session_runs_on_a_server(server: Any, program: Program) -> None:
    with graphmill.Session(server.target, program.graph) as session:
        session.run(program.init)
        found = session.run({"y": program.y, "all": [program.z, program.step]}, {"x:0": [1, 2]})
        assert found["y"].tolist() == [1, 4]
        assert [np.asarray(v).tolist() for v in found["all"]] == [[2, 5], 1]
        assert session.run("upper:0", {"words:0": [b"a\0", b"b"]}).tolist() == [b"A\0", b"B"]
        assert session.make_callable("z:0", ["x:0"])(np.float32([3, 4])).tolist() == [10, 17]
        handle = session.partial_run_setup(["y:0", "z:0"], ["x:0"])
        assert session.partial_run(handle, "y:0", {"x:0": [1, 2]}).tolist() == [1, 4]
        assert session.partial_run(handle, "z:0").tolist() == [2, 5]
        assert session.list_devices()[0].name.endswith("/device:CPU:0")


def test_errors_are_those_of_a_local_session(server: Any, program: Program) -> None:
    def failures(target: str) -> list[Any]:
        with graphmill.Session(target, program.graph) as session:
            found = []
            for fetch, feeds in (
                ("checked:0", {"x:0": [np.nan, 0]}),
                (program.steps, {}),  # not initialized
                ("y:0", {}),
                ("y:0", {"x:0": [1, 2, 3]}),
                ("nothing:0", {}),
            ):
                with pytest.raises(errors.OpError) as caught:
                    session.run(fetch, feeds)
                found.append((type(caught.value), caught.value.node))
            return found

    assert failures(server.target) == failures("")


def test_sessions_share_variables_and_reset_clears_them(server: Any, program: Program) -> None:
    with (
        graphmill.Session(server.target, program.graph) as one,
        graphmill.Session(server.target, program.graph) as other,
    ):
        one.run(program.init)
        assert [s.run(program.step) for s in (one, other, one)] == [1, 2, 3]
        graphmill.reset(server.target)
        with pytest.raises(errors.AbortedError, match="not found"):
            one.run(program.step)
    with (
        graphmill.Session(server.target, program.graph) as again,
        pytest.raises(errors.FailedPreconditionError),
    ):
        again.run(program.steps)


def test_step_returns_metadata(server: Any, program: Program) -> None:
    metadata = graphmill.RunMetadata()
    options = graphmill.RunOptions(
        trace_level=graphmill.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    with graphmill.Session(server.target, program.graph) as session:
        session.run("y:0", {"x:0": [1, 2]}, options=options, run_metadata=metadata)
    assert {node.node_name for node in metadata.step_stats.dev_stats[0].node_stats} >= {"y"}
    assert len(metadata.partition_graphs) == 1


def test_training_continues_after_its_server_was_restarted(
    program: Program, tmp_path: Path
) -> None:
    server = graphmill.Server(trust=True)
    address = server.target.removeprefix("grpc://")
    scaffold = train.Scaffold(graph=program.graph)
    training = train.MonitoredTrainingSession(
        server.target,
        checkpoint_dir=tmp_path,
        scaffold=scaffold,
        save_checkpoint_steps=2,
        recovery_wait_secs=0.01,
    )
    with training:
        assert [training.run(program.step) for _ in range(3)] == [1, 2, 3]
        server.stop()
        server = graphmill.Server({"localhost": [address]}, trust=True)
        # Step 2 was saved, the third one is lost with the server's variables.
        assert [training.run(program.step) for _ in range(2)] == [3, 4]
    server.stop()
    assert train.latest_checkpoint(tmp_path) == f"{tmp_path}/model.ckpt-4"
