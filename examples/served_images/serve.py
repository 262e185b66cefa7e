"""Serve an image classifier that takes PNG files, and ask it over HTTP.

    python examples/served_images/serve.py

The digits network takes pixels. Here nodes that decode, shrink and scale a picture are put before
it, the whole is saved as version 1 of a model, and served with TensorFlow Serving's API.
Needs `pip install 'graphmill[image,serve]'`.
"""

from __future__ import annotations

import base64
import json
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import graphmill
from graphmill import functions as F
from graphmill import ops
from graphmill_plugins.serving.model_server import ModelServer
from graphmill_plugins.serving.models.model_settings import ModelSettings
from graphmill_plugins.serving.server_options import ServerOptions

DIGITS = Path(__file__).parents[1] / "digits"


def preprocessing() -> graphmill.GraphDef:
    """Return nodes that convert a PNG file, `png`, to the network's input pixels, `image`."""
    graph = graphmill.Graph()
    with graph.as_default():
        png = F.placeholder("string", [1], name="png")
        picture = ops.image.decode_png(png[0], channels=1)
        pixels = ops.image.resize_bilinear(F.expand_dims(picture, 0), [8, 8])
        ops.array.identity(pixels / 255.0, name="image")
    return graph.as_graph_def()


def save(folder: Path) -> None:
    """Save a model that takes a PNG file and returns the digit and its probability."""
    nodes = preprocessing()
    network = graphmill.GraphDef.FromString((DIGITS / "digits_frozen.pb").read_bytes())
    nodes.node.extend(node for node in network.node if node.name != "image")
    graph = graphmill.Graph.from_graph_def(nodes)
    named = graph.get_tensor_by_name
    with graph.as_default():
        outputs = {
            "digit": named("classes:0"),
            "probability": F.reduce_max(named("probabilities:0"), axis=1),
        }
    with graphmill.Session(graph=graph) as session:
        graphmill.saved_model.simple_save(session, folder, {"png": named("png:0")}, outputs)


def ask(url: str, picture: Path) -> dict[str, Any]:
    """Return the prediction for a picture."""
    encoded = base64.b64encode(picture.read_bytes()).decode()
    body = json.dumps({"instances": [{"png": {"b64": encoded}}]}).encode()
    with urllib.request.urlopen(url, body) as response:
        prediction: dict[str, Any] = json.load(response)["predictions"][0]
    return prediction


def main() -> dict[str, int]:
    """Serve the model and classify the pictures; return the digit of each."""
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder, "digits", "1"))
        settings = ModelSettings("digits", str(Path(folder, "digits")))
        with ModelServer(ServerOptions(models=(settings,), http_port=0)) as server:
            url = f"http://{server.http_address}/v1/models/digits:predict"
            answers = {picture.name: ask(url, picture) for picture in sorted(DIGITS.glob("*.png"))}
    for name, answer in answers.items():
        print(f"{name}: {answer['digit']} ({answer['probability']:.3f})")
    return {name: answer["digit"] for name, answer in answers.items()}


if __name__ == "__main__":
    main()
