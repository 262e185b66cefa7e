"""Fuzz target: read the records of a file.

The first byte chooses the compression, and whether all checksums are right: then damage reaches the
code behind them.
"""

from __future__ import annotations

import contextlib
import gzip
import struct
import tempfile
import zlib
from itertools import islice
from pathlib import Path
from unittest import mock

from typed_errors import typed_errors

from graphmill import tf_record

_COMPRESSIONS = ("", "GZIP", "ZLIB")
_UNVERIFIED = 4
_MAX_RECORDS = 1_000
_RECORDS = (b"", b"one", bytes(300))


def seeds() -> list[bytes]:
    """Return three records in each compression, and plain ones with zeros as checksums."""
    records = b"".join(map(tf_record.frame, _RECORDS))
    contents = (records, gzip.compress(records), zlib.compress(records))
    unverified = b"".join(struct.pack("<QI", len(r), 0) + r + bytes(4) for r in _RECORDS)
    return [
        *(bytes([kind]) + content for kind, content in enumerate(contents)),
        bytes([_UNVERIFIED]) + unverified,
    ]


def fuzz(data: bytes) -> None:
    """Read the records of a file with this content."""
    kind = data[0] if data else 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as patches:
        if kind & _UNVERIFIED:
            patches.enter_context(mock.patch.object(tf_record, "_checksum", return_value=0))
        path = Path(folder, "records")
        path.write_bytes(data[1:])
        compression = _COMPRESSIONS[(kind & 3) % len(_COMPRESSIONS)]
        with typed_errors():
            for _ in islice(tf_record.tf_record_iterator(path, compression), _MAX_RECORDS):
                pass


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
