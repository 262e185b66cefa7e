"""The exceptions that Python and NumPy raise for a damaged zip archive or array file in memory."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from typing import Final

try:
    from lzma import LZMAError
except ImportError:  # a Python that was built without it refuses such members
    LZMAError = NotImplementedError  # type: ignore[assignment, misc]

# Members may be compressed in any way that zipfile knows; bz2 raises OSError.
DAMAGED_ZIP: Final[tuple[type[Exception], ...]] = (
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)

# NumPy parses the header as a Python literal, and allocates what it declares.
DAMAGED_ARRAY: Final[tuple[type[Exception], ...]] = (
    EOFError,
    OSError,
    ValueError,
    SyntaxError,
    tokenize.TokenError,
    RecursionError,
    MemoryError,
)
