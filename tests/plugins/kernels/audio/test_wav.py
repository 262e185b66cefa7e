"""DecodeWav reads EncodeWav's output, and refuses malformed files."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels.audio.wav import decode_wav, encode_wav

SAMPLES = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
ENCODED = encode_wav(SAMPLES, np.int32(8000)).item()


def decoded(contents, **options):
    expected = {"desired_channels": -1, "desired_samples": -1, **options}
    return decode_wav(string_scalar(contents), **expected)


def test_written_data_is_read():
    audio, rate = decoded(ENCODED)
    np.testing.assert_allclose(audio, SAMPLES, atol=2**-15)
    assert rate == 8000


@given(st.integers(0, len(ENCODED) - 1), st.integers(0, 255))
def test_a_changed_byte_is_an_error_or_other_sound(place, byte):
    changed = bytearray(ENCODED)
    changed[place] = byte
    try:
        audio, _ = decoded(bytes(changed))
    except InvalidArgumentError:
        return
    assert audio.size <= len(ENCODED)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_or_read(contents):
    for start in (b"", b"RIFF\0\0\0\0WAVEfmt "):
        try:
            decoded(start + contents)
        except InvalidArgumentError:
            continue
