"""Find and delete checkpoints, and write the state file that names the latest.

Semantics: tensorflow/python/checkpoint/checkpoint_management.py.
"""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING, Any

from graphmill import errors, files, proto
from graphmill.deprecations import renamed_arguments
from graphmill.saved.bundle_format import index_path
from graphmill.saved.checkpoint import STATE_FILE, read_state

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    Path = str | os.PathLike[str]


@renamed_arguments(folder="checkpoint_dir")
def get_checkpoint_state(checkpoint_dir: Path, latest_filename: str | None = None) -> Any:
    """Return the `CheckpointState` of a folder with full paths, or None if it has none.

    Raises:
        DataLossError: the file is damaged.
    """
    base = files.as_path(checkpoint_dir)
    message = read_state(files.join(base, latest_filename or STATE_FILE))
    if message is None:
        return None
    message.model_checkpoint_path = files.join(base, message.model_checkpoint_path)
    paths = [files.join(base, path) for path in message.all_model_checkpoint_paths]
    del message.all_model_checkpoint_paths[:]
    message.all_model_checkpoint_paths.extend(paths)
    return message


def checkpoint_exists(checkpoint_prefix: Path) -> bool:
    """Return whether there is a checkpoint of the format V2 or V1 with a prefix.

    Raises:
        OpError: the folder cannot be read.
    """
    prefix = files.as_path(checkpoint_prefix)
    return files.exists(index_path(prefix)) or files.exists(prefix)


def remove_checkpoint(
    checkpoint_prefix: Path,
    checkpoint_format_version: int = proto.SaverDef.V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Delete the files of a checkpoint that exist.

    Args:
        checkpoint_prefix: the prefix of the files.
        checkpoint_format_version: the format, `SaverDef.V2` or `SaverDef.V1`.
        meta_graph_suffix: what follows the prefix and a dot in the name of the graph's file.

    Raises:
        OpError: a file cannot be deleted.
    """
    prefix = files.as_path(checkpoint_prefix)
    checkpoint = [prefix]
    if checkpoint_format_version == proto.SaverDef.V2:
        data = files.matching(f"{glob.escape(prefix)}.data-?????-of-?????")
        checkpoint = [index_path(prefix), *data]
    for path in (*checkpoint, f"{prefix}.{meta_graph_suffix}"):
        try:
            files.remove(path)
        except errors.NotFoundError:
            continue


def write_state_file(
    latest: str, checkpoints: Sequence[str], name: str, *, relative: bool = False
) -> None:
    """Write the state file, which is beside the latest checkpoint.

    Args:
        latest: the prefix of the latest checkpoint.
        checkpoints: the prefixes of all checkpoints, the oldest first.
        name: the name of the file.
        relative: whether it names checkpoints relative to its folder even if their paths are
            absolute.

    Raises:
        OpError: the file cannot be written.
    """
    from google.protobuf import text_format

    folder = files.parent(latest)

    def spelled(prefix: str) -> str:
        is_beside = folder and files.parent(prefix) == folder
        is_absolute = prefix.startswith("/") or files.is_url(prefix)
        if not is_beside or (is_absolute and not relative):
            return prefix
        return prefix[len(folder) :].lstrip("/")

    message = proto.CheckpointState(
        model_checkpoint_path=spelled(latest),
        all_model_checkpoint_paths=[spelled(prefix) for prefix in checkpoints],
    )
    text = text_format.MessageToString(message)
    files.write(files.join(folder, name), text.encode())
