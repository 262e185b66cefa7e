"""A WSGI application over a model: `gunicorn --preload --workers 2 wsgi:application`.

With `--preload` the model is loaded once, before gunicorn forks: the workers share its memory.
Nothing is compiled before the fork, so that each worker can compile.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import graphmill

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MODEL = Path(__file__).parents[1] / "digits" / "saved_model_tf2"
classify = graphmill.saved_model.load(MODEL).signatures["serving_default"]


def application(
    environ: dict[str, object], start_response: Callable[..., object]
) -> Iterable[bytes]:
    """Answer a JSON array of images, of shape [batch, 8, 8, 1], with their classes."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    try:
        images = np.array(json.loads(body), np.float32)
        classes = classify(image=images)["classes"]
    except (ValueError, graphmill.errors.InvalidArgumentError) as error:
        start_response("400 Bad Request", [("Content-Type", "text/plain")])
        return [str(error).encode()]
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(np.asarray(classes).tolist()).encode()]
