"""Fuzz target: read the records of a file, plain or compressed as its first byte says."""

from __future__ import annotations

import contextlib
import gzip
import tempfile
import zlib
from itertools import islice
from pathlib import Path

from graphmill import errors, tf_record

_COMPRESSIONS = ("", "GZIP", "ZLIB")
_MAX_RECORDS = 1_000


def seeds() -> list[bytes]:
    """Return three records in each compression."""
    records = b"".join(tf_record.frame(record) for record in (b"", b"one", bytes(300)))
    contents = (records, gzip.compress(records), zlib.compress(records))
    return [bytes([kind]) + content for kind, content in enumerate(contents)]


def fuzz(data: bytes) -> None:
    """Read the records of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records")
        path.write_bytes(data[1:])
        compression = _COMPRESSIONS[data[0] % len(_COMPRESSIONS)] if data else ""
        with contextlib.suppress(errors.OpError):
            for _ in islice(tf_record.tf_record_iterator(path, compression), _MAX_RECORDS):
                pass


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
