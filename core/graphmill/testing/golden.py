"""Read and write golden results of op cases, one packed file for each case file.

A file has two byte arrays: `index`, JSON with the digest, error and output descriptions of each
case, and `data`, the concatenated little-endian contents. This avoids the headers of thousands of
small arrays.
"""

from __future__ import annotations

import base64
import functools
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.deprecations import renamed_name
from graphmill.testing.case import FOLDER
from graphmill.testing.case_inputs import Values, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of a case: values and dtypes, or the error class without "Error"."""

    outputs: tuple[Values, ...] = ()
    dtypes: tuple[str, ...] = ()
    error: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A result with the digest of its case."""

    digest: str
    result: CaseResult


def write_results(path: Path, results: Mapping[str, Stored], source: str) -> None:
    """Write the results of one case file; `source` names the system that computed them."""
    chunks: list[bytes] = []
    cases: dict[str, Any] = {}
    offset = 0
    for case_id, stored in sorted(results.items()):
        outputs: list[Any] = []
        for value, dtype in zip(stored.result.outputs, stored.result.dtypes, strict=True):
            if dtype == "string":
                outputs.append([dtype, value.shape, _encode_strings(value)])
                continue
            content = np.ascontiguousarray(value).tobytes()
            outputs.append([dtype, value.shape, offset])
            chunks.append(content)
            offset += len(content)
        cases[case_id] = [stored.digest, stored.result.error, outputs]
    index = json.dumps({"source": source, "cases": cases}, separators=(",", ":")).encode()
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        path,
        index=np.frombuffer(index, np.uint8),
        data=np.frombuffer(b"".join(chunks), np.uint8),
    )


def read_results(path: Path) -> dict[str, Stored]:
    """Read the results of one case file, by case id; an empty dict if there is no file."""
    if not path.exists():
        return {}
    with np.load(path) as archive:
        index = json.loads(archive["index"].tobytes())
        data = archive["data"].tobytes()
    return {
        case_id: Stored(digest, _unpack(error, outputs, data))
        for case_id, (digest, error, outputs) in index["cases"].items()
    }


def _unpack(error: str, outputs: Sequence[Any], data: bytes) -> CaseResult:
    values = tuple(
        _decode_strings(where, shape) if dtype == "string" else _slice(data, dtype, shape, where)
        for dtype, shape, where in outputs
    )
    return CaseResult(values, tuple(dtype for dtype, _, _ in outputs), error)


def _slice(data: bytes, dtype: str, shape: Sequence[int], offset: int) -> Values:
    kind = numpy_dtype(dtype)
    count = math.prod(shape)
    return (
        np.frombuffer(data, kind, count, offset).reshape(shape) if count else np.zeros(shape, kind)
    )


def _encode_strings(value: Values) -> list[str]:
    return [base64.b64encode(item).decode() for item in value.reshape(-1)]


def _decode_strings(texts: Sequence[str], shape: Sequence[int]) -> Values:
    out = np.empty(len(texts), dtype=object)
    out[:] = [base64.b64decode(text) for text in texts]
    return out.reshape(tuple(shape))


@functools.cache
def stored_results(stem: str) -> dict[str, Stored]:
    """Read TensorFlow's results for the cases of one file."""
    return read_results(FOLDER / "results" / f"{stem}.npz")


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
