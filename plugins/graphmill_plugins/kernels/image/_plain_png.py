"""Read plain PNG files with Pillow's decoder alone, without its class of PNG files.

The class takes longer to read the parts of a small file than the decoder for the pixels. Most
files are plain: eight bits for each channel, no palette, no interlacing. The format:
https://www.w3.org/TR/png-3/.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.image._png_chunks import chunks_of

_BEGIN: Final = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"
_HEADER_SIZE: Final = 13
_MODES: Final = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
_WITHOUT_EFFECT: Final = frozenset([b"gAMA", b"pHYs", b"sRGB", b"cHRM", b"tIME", b"tEXt"])


def plain_header(contents: bytes) -> tuple[str, tuple[int, int]] | None:
    """Return Pillow's mode, and width and height, of a PNG that may be plain; None for others."""
    if not contents.startswith(_BEGIN) or len(contents) < len(_BEGIN) + _HEADER_SIZE:
        return None
    width, height, bits, color, *methods = struct.unpack_from(">IIBBBBB", contents, len(_BEGIN))
    if bits != 8 or any(methods) or color not in _MODES or not width or not height:
        return None
    return _MODES[color], (width, height)


def plain_image(image_module: Any, contents: bytes, mode: str, size: tuple[int, int]) -> Any:
    """Return the image of a PNG whose header is plain; None if it is not plain or has an error.

    Args:
        image_module: `PIL.Image`.
        contents: the file.
        mode, size: the results of `plain_header`.
    """
    try:
        data = _pixel_data(contents)
        if data is None:
            return None
        image = image_module.frombytes(mode, size, data, "zip", mode, 0)
    except (InvalidArgumentError, ValueError, OSError):  # Pillow's class of PNG files names it
        return None
    image.format = "PNG"
    return image


def _pixel_data(contents: bytes) -> bytes | None:
    """Return the compressed pixels; None if other chunks may matter or are in an odd order."""
    header, *chunks, _ = chunks_of(contents)
    data = [body for kind, body in chunks if kind == b"IDAT"]
    first = next((index for index, (kind, _) in enumerate(chunks) if kind == b"IDAT"), 0)
    are_together = all(kind == b"IDAT" for kind, _ in chunks[first : first + len(data)])
    others = {kind for kind, _ in chunks if kind != b"IDAT"}
    if len(header[1]) != _HEADER_SIZE or not data or not are_together or others - _WITHOUT_EFFECT:
        return None
    return bytes(data[0]) if len(data) == 1 else b"".join(data)
