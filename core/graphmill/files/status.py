"""Convert operating system errors to status errors with TensorFlow's codes.

Semantics: tensorflow's tsl/platform/errors.cc.
"""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

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


@contextlib.contextmanager
def typed_errors(path: str) -> Iterator[None]:
    """Convert an OSError in the `with` block to a status error that names the path."""
    try:
        yield
    except OSError as error:
        kind = _ERRNO_CLASSES.get(error.errno or 0, errors.UnknownError)
        if isinstance(error, FileNotFoundError):  # some drivers raise it without errno
            kind = errors.NotFoundError
        reason = error.strerror or str(error) or type(error).__name__
        raise kind(f"{path}: {reason}") from error
