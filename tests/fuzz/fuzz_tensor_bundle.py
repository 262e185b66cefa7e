"""Fuzz target: read a checkpoint, a TensorBundle or one of format V1, with a damaged index.

The first byte chooses the format, and whether checksums are verified: without, damage reaches the
code behind them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from scratch_folder import new_file
from typed_errors import typed_errors

from graphmill.saved.checkpoint import load_checkpoint

_CHECKPOINTS = Path(__file__).parents[1] / "data" / "checkpoints"
_VERIFIED, _V1 = 1, 2


def seeds() -> list[bytes]:
    """Return the indexes of three checkpoints and one of format V1, with and without checks."""
    names = ("dtypes.index", "many.index", "partitioned.index")
    indexes = [(0, (_CHECKPOINTS / name).read_bytes()) for name in names]
    indexes.append((_V1, (_CHECKPOINTS / "v1").read_bytes()))
    return [bytes([form | check]) + index for check in (0, _VERIFIED) for form, index in indexes]


def fuzz(data: bytes) -> None:
    """Open a checkpoint with this index, and read its first tensors."""
    kind, index = (data[0], data[1:]) if data else (0, b"")
    if kind & _V1:
        prefix = new_file("v1", index)
    else:
        prefix = new_file(f"{_data().name}.index", index).with_suffix("")
    with (
        typed_errors(),
        load_checkpoint(str(prefix), check=bool(kind & _VERIFIED)) as reader,
    ):
        for name in list(reader.get_variable_to_shape_map())[:20]:
            with typed_errors():
                reader.get_tensor(name)


@cache
def _data() -> Path:
    """Write the file of tensors, the same for each index; return the checkpoint's prefix."""
    content = (_CHECKPOINTS / "dtypes.data-00000-of-00001").read_bytes()
    return new_file("model.data-00000-of-00001", content).with_name("model")


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
