"""Convert operating system errors to status errors with TensorFlow's codes.

Semantics: tensorflow's tsl/platform/errors.cc.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Final

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERRNO_CLASSES: dict[int, type[errors.OpError]] = {
    errno.ENOENT: errors.NotFoundError,
    errno.EEXIST: errors.AlreadyExistsError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EPERM: errors.PermissionDeniedError,
    errno.EROFS: errors.PermissionDeniedError,
    errno.EISDIR: errors.FailedPreconditionError,
    errno.ENOTDIR: errors.FailedPreconditionError,
    errno.ENOTEMPTY: errors.FailedPreconditionError,
    errno.EINVAL: errors.InvalidArgumentError,
    errno.ENAMETOOLONG: errors.InvalidArgumentError,
    errno.ENOSPC: errors.ResourceExhaustedError,
    errno.EDQUOT: errors.ResourceExhaustedError,
    errno.EMFILE: errors.ResourceExhaustedError,
    errno.ENFILE: errors.ResourceExhaustedError,
    errno.ENOMEM: errors.ResourceExhaustedError,
}

_NO_SPACE: Final = "try: free space on the file system of this path, or write to another one"
_TOO_MANY_FILES: Final = "try: close files, or raise the limit of open files (ulimit -n)"
_ADVICE: Final = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: "try: delete files of yours there, or ask for a larger quota",
    errno.EROFS: "try: another file system; this one may only be read",
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
}
"""Advice for each kind of error, added as a note."""


@contextlib.contextmanager
def typed_errors(path: str) -> Iterator[None]:
    """Convert an OSError in the `with` block to a status error that names the path.

    A full disk and the like are errors with a note that says what to do.
    """
    try:
        yield
    except OSError as error:
        kind = _ERRNO_CLASSES.get(error.errno or 0, errors.UnknownError)
        if isinstance(error, FileNotFoundError):  # some drivers raise it without errno
            kind = errors.NotFoundError
        reason = error.strerror or str(error) or type(error).__name__
        typed = kind(f"{path}: {reason}")
        advice = _ADVICE.get(error.errno or 0)
        if advice is not None:
            typed.add_note(advice)
        raise typed from error
