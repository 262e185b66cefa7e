"""Read input files: `.npy .npz .json .txt .png .jpg`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import files as storage
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.files.damaged_zip import DAMAGED_ARRAY, DAMAGED_ZIP
from graphmill.inputs import image_files
from graphmill.inputs.source import TRY_EACH

if TYPE_CHECKING:
    from graphmill.inputs.source import Source

SUFFIXES = (".npy", ".npz", ".json", ".txt", *image_files.SUFFIXES)
"""The suffixes of all supported input files."""


class Lines(list[str]):
    """The lines of a text file; they are parsed as numbers if the input is numeric."""


def read_bytes(path: str) -> bytes:
    """Return the content of a file, local or at a URL that fsspec knows.

    Raises:
        OpError: the file does not exist (the error suggests near matches), or cannot be read.
    """
    try:
        return storage.read_bytes(storage.as_path(path))
    except NotFoundError as error:
        raise _missing(path) from error


def _missing(path: str) -> NotFoundError:
    """Return the error for a file that does not exist, with near matches in its folder."""
    folder = Path(path).parent
    near = [item.name for item in folder.iterdir()] if folder.is_dir() else []
    error = NotFoundError(f"there is no file {path}{suggest(Path(path).name, near)}")
    if "*" in path or not path.lower().endswith(SUFFIXES):
        error.add_note(TRY_EACH)
    return error


def _may_exist(path: str) -> bool:
    """Return False for the name of a file that does not exist; `-` and patterns are not names."""
    return not Path(path).suffix or "*" in path or storage.exists(storage.as_path(path))


def _unsupported(source: Source) -> InvalidArgumentError:
    error = InvalidArgumentError(
        f"{source.text} for input {source.name!r} is of an unsupported file type; "
        f"supported are {' '.join(SUFFIXES)}"
    )
    error.add_note(TRY_EACH)
    return error


def read_value(source: Source, data: bytes) -> Any:
    """Return the value in the bytes of a file that is not an image: an array, a list, a number.

    Raises:
        InvalidArgumentError: the content does not match the file's suffix.
        NotFoundError: the `[KEY]` is not in the file.
    """
    suffix = suffix_of(source)
    if suffix == ".npy":
        return _load_numpy(source, data)
    if suffix == ".npz":
        return _load_archive(source, data)
    if suffix == ".json":
        return _load_json(source, data)
    return _load_text(source, data)


def suffix_of(source: Source) -> str:
    """Return the file's suffix in lower case.

    Raises:
        InvalidArgumentError: the file type is not supported.
        NotFoundError: the file type is not supported, and the file does not exist.
    """
    suffix = Path(source.text).suffix.lower()
    if suffix not in SUFFIXES:
        raise _unsupported(source) if _may_exist(source.text) else _missing(source.text)
    return suffix


def _load_numpy(source: Source, data: bytes) -> Any:
    try:
        return np.load(io.BytesIO(data), allow_pickle=False)
    except DAMAGED_ARRAY as error:
        raise InvalidArgumentError(f"{source} is not a .npy file: {error}") from error


def _load_archive(source: Source, data: bytes) -> Any:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise InvalidArgumentError(f"{source} is not a .npz file: it holds one array only")
            return archive[_choose(source, archive.files)]
    except (*DAMAGED_ZIP, *DAMAGED_ARRAY) as error:
        raise InvalidArgumentError(f"{source} is not a .npz file: {error}") from error


def _load_json(source: Source, data: bytes) -> Any:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"{source} is not JSON: {error}") from error
    if isinstance(value, dict):
        return value[_choose(source, list(value))]
    if source.key is not None:
        raise NotFoundError(f"{source.text} is not a JSON object: it has no member {source.key!r}")
    return value


def _load_text(source: Source, data: bytes) -> Lines:
    try:
        return Lines(data.decode("utf-8").splitlines())
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{source} is not text in UTF-8: {error}") from error


def _choose(source: Source, names: list[str]) -> str:
    """Return the requested key, else the only one, else the one named after the input."""
    if source.key is not None:
        if source.key in names:
            return source.key
        raise NotFoundError(
            f"{source.text} has no {source.key!r}{suggest(source.key, names)}; "
            f"it has {', '.join(sorted(names)) or 'nothing'}"
        )
    if len(names) == 1:
        return names[0]
    if source.name in names:
        return source.name
    error = InvalidArgumentError(
        f"{source.text} holds several arrays ({', '.join(sorted(names)) or 'none'}), "
        f"and none is named {source.name!r}"
    )
    error.add_note(f"try: {source.name}=@{source.text}[{names[0] if names else 'KEY'}]")
    raise error
