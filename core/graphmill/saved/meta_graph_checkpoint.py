"""Restore the checkpoint that is stored next to a MetaGraph: `x` for the file `x.meta`."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING

from graphmill import files

if TYPE_CHECKING:
    from graphmill.proto.saver_pb2 import SaverDef
    from graphmill.session.session import Session


def restore_checkpoint_beside(session: Session, path: str, saver: SaverDef) -> None:
    """Restore the checkpoint next to a MetaGraph file, if it exists.

    Args:
        session: a session over the MetaGraph.
        path: the path of the MetaGraph file.
        saver: its saver.

    Raises:
        DataLossError: the checkpoint is damaged.
        OpError: it does not fit the graph.
    """
    prefix = path.removesuffix(".meta")
    if not saver.restore_op_name:
        return
    checkpoint = _files_of(prefix)
    if checkpoint:
        with session.allowing(*(f"fs.read:{path}" for path in checkpoint)):
            session.run([], {saver.filename_tensor_name: prefix}, targets=[saver.restore_op_name])


def _files_of(prefix: str) -> list[str]:
    """Return the files by which a checkpoint in format V2 or V1 is read, or an empty list."""
    if files.exists(f"{prefix}.index"):
        data = files.matching(f"{glob.escape(prefix)}.data-?????-of-?????")
        return [f"{prefix}.index", *data]
    from graphmill.saved.v1_checkpoint import is_v1_checkpoint

    # RestoreV2 looks for an index first, also of a checkpoint in format V1.
    return [prefix, f"{prefix}.index"] if is_v1_checkpoint(prefix) else []
