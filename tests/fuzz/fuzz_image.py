"""Fuzz target: decode the header and the pixels of an image."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from typed_errors import typed_errors

import graphmill
from graphmill import ops

_DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def seeds() -> list[bytes]:
    """Return a small image in each format that Pillow writes."""
    from PIL import Image

    image = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    found = [(_DIGITS / "seven.png").read_bytes()]
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP"):
        buffer = io.BytesIO()
        image.save(buffer, kind)
        found.append(buffer.getvalue())
    return found


@cache
def _session() -> tuple[graphmill.Session, Any, list[Any]]:
    graph = graphmill.Graph()
    with graph.as_default():
        data = graph.placeholder("string", [], name="data")
        fetches = [
            ops.image.decode_image(data),
            ops.image.decode_png(data, dtype="uint16"),
            ops.image.decode_jpeg(data),
            ops.image.decode_gif(data),
            ops.image.decode_bmp(data),
            ops.image.decode_web_p(data),
            ops.image.extract_jpeg_shape(data),
        ]
    config = {"graphmill": {"jit": "off", "memory_budget_bytes": 1 << 26}}
    return graphmill.Session(graph=graph, config=config), data, fetches


def fuzz(data: bytes) -> None:
    """Decode the bytes with each op."""
    session, contents, fetches = _session()
    for fetch in fetches:
        with typed_errors():
            session.run(fetch, {contents: np.array(data, object)})


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
