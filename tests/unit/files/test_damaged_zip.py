"""A damaged zip archive raises one of the listed errors, however its members are compressed."""

from __future__ import annotations

import io
import random
import zipfile

import numpy as np
import pytest

from graphmill.files.damaged_zip import DAMAGED_ZIP

METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


@pytest.mark.parametrize("method", METHODS)
def test_errors_of_damaged_members_are_listed(method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("x.npy", np.arange(500.0).tobytes())
    draw, failed = random.Random(method), 0
    for _ in range(300):
        data = bytearray(buffer.getvalue())
        for _ in range(draw.randrange(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for name in archive.namelist():
                    archive.read(name)
        except DAMAGED_ZIP:
            failed += 1
    assert failed
