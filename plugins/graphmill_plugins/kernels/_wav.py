"""Write WAV files of 16-bit samples for EncodeWav and audio summaries.

Semantics: tensorflow/core/lib/wav/wav_io.cc.
"""

from __future__ import annotations

import struct

from graphmill.errors import InvalidArgumentError

_PCM = 1
_BYTES = 2  # of a sample
_UINT16, _UINT32 = (1 << 16) - 1, (1 << 32) - 1


def wav_file(data: bytes, channels: int, rate: int) -> bytes:
    """Return interleaved samples as a WAV file.

    Raises:
        InvalidArgumentError: an argument is not positive, or does not fit its field in the file.
    """
    for name, value, bits in (("num_channels", channels, 16), ("sample_rate", rate, 32)):
        if not 0 < value < 1 << bits:
            raise InvalidArgumentError(f"{name} must be in (0, 2^{bits}), got: {value}")
    if 36 + len(data) > _UINT32:
        raise InvalidArgumentError("the audio is too long for a WAV file")
    frame = _BYTES * channels
    # Byte rate and frame size keep their low bits only: readers compute them from the rest.
    sizes = channels, rate, rate * frame & _UINT32, frame & _UINT16
    head = struct.pack("<4sI4s", b"RIFF", 36 + len(data), b"WAVE")
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, _PCM, *sizes, 8 * _BYTES)
    return head + form + struct.pack("<4sI", b"data", len(data)) + data
