"""The user interface for checkpoints: open, list variables, find the latest, write.

    from graphmill.saved import checkpoint
    with checkpoint.load_checkpoint("model/ckpt-100") as reader:
        kernel = reader.get_tensor("dense/kernel")

The names are TensorFlow's (`tf.train.load_checkpoint`, `list_variables`, `latest_checkpoint`).
We read formats V1 and V2, and write V2 (`PREFIX.index` and `PREFIX.data-…`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from graphmill import errors, files, proto
from graphmill.deprecations import renamed_arguments
from graphmill.saved import bundle_format as layout
from graphmill.saved.bundle_reader import BundleReader
from graphmill.saved.bundle_writer import BundleWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import numpy as np

    from graphmill import dtypes
    from graphmill.saved.tensor_slice import TensorSlice
    from graphmill.saved.v1_checkpoint import V1Reader

    Path = str | os.PathLike[str]

STATE_FILE = "checkpoint"


class CheckpointReader:
    """A checkpoint of format V1 or V2, opened for reading. Thread-safe for V2.

    Attributes:
        path: the prefix (for V1, the path or pattern) of the checkpoint.
    """

    def __init__(self, path: str, reader: BundleReader | V1Reader) -> None:
        self.path = path
        self._reader = reader

    def __repr__(self) -> str:
        return f"<CheckpointReader {self.path!r}>"

    def names(self) -> list[str]:
        """Return the names of all tensors, sorted."""
        return sorted(self._reader.names())

    def has_tensor(self, name: str) -> bool:
        """Return whether the checkpoint has a tensor `name`."""
        return name in self._reader

    def dtype(self, name: str) -> dtypes.DType:
        """Return the element type of tensor `name`; NotFoundError if there is none."""
        if isinstance(self._reader, BundleReader):
            return self._reader.entry(name).dtype
        return self._reader.dtype(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of tensor `name`; NotFoundError if there is none."""
        if isinstance(self._reader, BundleReader):
            return self._reader.entry(name).shape
        return self._reader.shape(name)

    def get_variable_to_shape_map(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor by its name."""
        return {name: self.shape(name) for name in self.names()}

    def get_variable_to_dtype_map(self) -> dict[str, dtypes.DType]:
        """Return the element type of every tensor by its name."""
        return {name: self.dtype(name) for name in self.names()}

    def get_tensor(self, name: str) -> np.ndarray[Any, Any]:
        """Return the values of tensor `name`; strings are an object array of bytes.

        Raises:
            NotFoundError: there is no such tensor, or a data file is missing.
            DataLossError: the values are damaged.
        """
        return self._reader.read_tensor(name)

    def get_slice(self, name: str, wanted: TensorSlice) -> np.ndarray[Any, Any]:
        """Return one slice of tensor `name`; raises as `get_tensor`."""
        return self._reader.read_slice(name, wanted)

    def close(self) -> None:
        """Release the files; safe to call twice."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@renamed_arguments(path="ckpt_dir_or_file")
def load_checkpoint(ckpt_dir_or_file: Path, *, check: bool = True) -> CheckpointReader:
    """Open a checkpoint.

    Args:
        ckpt_dir_or_file: the checkpoint's prefix, or a folder to open its latest checkpoint.
        check: whether to verify checksums (needs google-crc32c).

    Raises:
        NotFoundError: the checkpoint does not exist.
        DataLossError: it is damaged.
    """
    prefix = files.as_path(ckpt_dir_or_file)
    if files.is_dir(prefix):
        latest = latest_checkpoint(prefix)
        if latest is None:
            raise errors.NotFoundError(
                f"folder {prefix} has no file {STATE_FILE!r} that names an existing checkpoint; "
                "pass the prefix of a checkpoint instead"
            )
        prefix = latest
    if not files.exists(layout.index_path(prefix)) and _is_v1(prefix):
        from graphmill.saved.v1_checkpoint import V1Reader

        return CheckpointReader(prefix, V1Reader(prefix, check=check))
    return CheckpointReader(prefix, BundleReader(prefix, check=check))


@renamed_arguments(path="ckpt_dir_or_file")
def list_variables(ckpt_dir_or_file: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and shape of every tensor of a checkpoint, sorted by name."""
    with load_checkpoint(ckpt_dir_or_file) as reader:
        return list(reader.get_variable_to_shape_map().items())


@renamed_arguments(folder="checkpoint_dir", state_file="latest_filename")
def latest_checkpoint(checkpoint_dir: Path, latest_filename: str | None = None) -> str | None:
    """Return the prefix of the latest checkpoint in a folder, or None.

    The result is None if there is no state file, or if the checkpoint that it names is missing.

    Raises:
        DataLossError: the state file is damaged.
    """
    folder = files.as_path(checkpoint_dir)
    state = read_state(files.join(folder, latest_filename or STATE_FILE))
    if state is None or not state.model_checkpoint_path:
        return None
    prefix = files.join(folder, state.model_checkpoint_path)
    if files.exists(layout.index_path(prefix)) or _is_v1(prefix):
        return prefix
    return None


def save_checkpoint(prefix: Path, tensors: Mapping[str, Any], num_shards: int = 1) -> None:
    """Write a checkpoint of format V2.

    Args:
        prefix: its prefix.
        tensors: arrays or array-likes by name.
        num_shards: number of data files.
    """
    with BundleWriter(prefix, num_shards) as writer:
        for name, values in tensors.items():
            writer.add(name, values)


def read_state(path: str) -> Any:
    """Return the `CheckpointState` in a state file, or None if the file does not exist."""
    from google.protobuf import text_format

    try:
        content = files.read_bytes(path)
    except errors.NotFoundError:
        return None
    try:
        return text_format.Parse(content.decode(), proto.CheckpointState())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise errors.DataLossError(f"{path} is damaged: {error}") from error


def _is_v1(path: str) -> bool:
    from graphmill.saved.v1_checkpoint import is_v1_checkpoint

    return is_v1_checkpoint(path)
