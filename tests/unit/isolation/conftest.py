"""Models with a kernel that runs any code, in isolated processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import text_format

from graphmill import proto
from graphmill.errors import UnimplementedError
from graphmill.isolation import IsolatedSession
from graphmill.isolation.limits import PROTECTIONS
from graphmill.isolation.protections import check_protections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GRAPH = """
node { name: "code" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
node { name: "run" op: "Hostile>Run" input: "code" }
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "Mul" input: "x" input: "x" attr { key: "T" value { type: DT_FLOAT } } }
versions { producer: 1395 }
"""


@pytest.fixture
def isolation() -> None:
    """Skip the test on a system that cannot isolate."""
    try:
        check_protections(PROTECTIONS)
    except UnimplementedError as error:
        pytest.skip(error.message)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model whose node `run` runs the code that is fed, and whose `y` is the square of `x`."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "plugins"))
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", "hostile_kernels")
    folder = tmp_path / "model"
    folder.mkdir()
    graph = text_format.Parse(_GRAPH, proto.GraphDef())
    path = folder / "model.pb"
    path.write_bytes(graph.SerializeToString())
    return path


@pytest.fixture
def isolated(model: Path, isolation: None) -> Iterator[Callable[..., IsolatedSession]]:
    """Return a function that opens sessions of the model; they are closed at the end."""
    sessions: list[IsolatedSession] = []

    def make(**options: Any) -> IsolatedSession:
        sessions.append(IsolatedSession(model, **options))
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()
