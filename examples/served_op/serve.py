"""Define an op that TensorFlow does not have, save a model that uses it, and serve the model.

    python examples/served_op/serve.py

`graphmill_register_*` make this module a plugin: installed with an entry point, each graphmill on
the machine knows the op, `graphmill serve-model` too. Here GRAPHMILL_LOAD_PLUGINS names the module.
Needs `pip install 'graphmill[serve]'`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.spi import dtypes, hookimpl, kernel, op

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


@op("Example>Swish", types={"T": dtypes.FLOATING}, shape=lambda op: op.shape("x"))
@kernel("Example>Swish")
def swish(xp: Any, x: T, *, beta: float = 1.0) -> T:
    """Multiply each element `x` by the sigmoid of `beta * x`."""
    return x / (1 + xp.exp(-beta * x))


@hookimpl
def graphmill_register_ops(ops: Any) -> None:
    """Register the op."""
    ops.add(swish)


@hookimpl
def graphmill_register_kernels(kernels: Any) -> None:
    """Register its kernel."""
    kernels.add(swish)


def main() -> list[float]:
    """Save a model with the op, serve it and return the server's response."""
    sys.path.insert(0, str(Path(__file__).parent))
    os.environ["GRAPHMILL_LOAD_PLUGINS"] = Path(__file__).stem
    import graphmill
    from graphmill_plugins.serving.model_server import ModelServer
    from graphmill_plugins.serving.models.model_settings import ModelSettings
    from graphmill_plugins.serving.server_options import ServerOptions

    with tempfile.TemporaryDirectory() as folder:
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [None], name="x")
            y = graphmill.op_function(swish)(x, beta=2.0)
        with graphmill.Session(graph=graph) as session:
            graphmill.saved_model.simple_save(session, Path(folder, "1"), {"x": x}, {"y": y})
        settings = ModelSettings("swish", folder)
        with ModelServer(ServerOptions(models=(settings,), http_port=0)) as server:
            url = f"http://{server.http_address}/v1/models/swish:predict"
            with urllib.request.urlopen(url, json.dumps({"instances": [0.0, 1.0]}).encode()) as got:
                predictions: list[float] = json.load(got)["predictions"]
    print(predictions)
    return predictions


if __name__ == "__main__":
    main()
