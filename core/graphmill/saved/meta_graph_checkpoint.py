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
    index = f"{prefix}.index"
    if saver.restore_op_name and files.exists(index):
        checkpoint = [index, *files.matching(f"{glob.escape(prefix)}.data-?????-of-?????")]
        with session.allowing(*(f"fs.read:{path}" for path in checkpoint)):
            session.run([], {saver.filename_tensor_name: prefix}, targets=[saver.restore_op_name])
