"""Fuzz target: read a TensorBundle whose index is damaged."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

from graphmill import errors
from graphmill.saved.bundle_reader import BundleReader

_CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"


def seeds() -> list[bytes]:
    """Return the indexes of three checkpoints."""
    return [
        (_CHECKPOINTS / f"{name}.index").read_bytes() for name in ("dtypes", "many", "partitioned")
    ]


def fuzz(data: bytes) -> None:
    """Open a bundle with this index, and read its first tensors."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = Path(folder, "model")
        prefix.with_suffix(".index").write_bytes(data)
        content = (_CHECKPOINTS / "dtypes.data-00000-of-00001").read_bytes()
        Path(f"{prefix}.data-00000-of-00001").write_bytes(content)
        with contextlib.suppress(errors.OpError), BundleReader(str(prefix)) as reader:
            for name in reader.names()[:20]:
                with contextlib.suppress(errors.OpError):
                    reader.read_tensor(name)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
