"""Fuzz target: read the records of a file.

The first byte chooses the compression, and whether all checksums are right: then damage reaches the
code behind them.
"""

from __future__ import annotations

import contextlib
import gzip
import struct
import zlib
from itertools import islice
from unittest import mock

from scratch_folder import new_file
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
    path = new_file("records", data[1:])
    compression = _COMPRESSIONS[(kind & 3) % len(_COMPRESSIONS)]
    with contextlib.ExitStack() as patches, typed_errors():
        if kind & _UNVERIFIED:
            patches.enter_context(mock.patch.object(tf_record, "_checksum", _zero))
        for _ in islice(tf_record.tf_record_iterator(path, compression), _MAX_RECORDS):
            pass


def _zero(*_: object) -> int:
    """Stand for a checksum that is right; a `Mock` would take most of the time of an input."""
    return 0


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
