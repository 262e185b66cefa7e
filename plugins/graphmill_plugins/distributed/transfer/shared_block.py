"""`SharedBlock`: shared memory that holds one tensor at a time for receivers on the machine.

The memory is a file that no folder lists (`memfd_create`). It is freed when the last process that
has it open ends, in whatever way, so nothing can be left behind in `/dev/shm`. Receivers open it
through `/proc/PID/fd/FD` of the sender.

A header contains the ids of the transfer that the block holds, and of the one that was taken last.
A receiver keeps a shared lock on the open file as long as its array lives; the kernel releases the
lock when the mapping of the array is removed, or its process dies. So a sender finds out without a
message whether it may reuse a block: it tries to take an exclusive lock.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import struct
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from graphmill.errors import AbortedError

assert sys.platform == "linux"  # importers have checked `host_identity`

DATA: Final = 4096
"""The offset of the tensor in the block: a page, so that every element type is aligned."""

_WORD: Final = struct.Struct("<Q")
_TAKEN: Final = _WORD.size  # where the header has the transfer that was taken last
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_PREFIX: Final = "graphmill-"


class SharedBlock:
    """The sender's end of a block.

    Args:
        capacity: the maximum size of a tensor in bytes.

    Raises:
        OSError: there is no memory, or no file can be opened.

    Threads: one at a time, as `BlockPool` ensures.

    Attributes:
        capacity: how many bytes a tensor may have.
        name: its unique name.
        transfer_id: the transfer that it holds; 0 for none.
        num_bytes: the size of its tensor.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.name = _PREFIX + secrets.token_hex(16)
        self.transfer_id = 0
        self.num_bytes = 0
        self.fd = os.memfd_create(self.name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            # A lack of memory must fail here: at the first write it would end the process.
            os.posix_fallocate(self.fd, 0, DATA + capacity)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)
            self._memory = mmap.mmap(self.fd, DATA + capacity)
        except BaseException:
            os.close(self.fd)
            raise

    @property
    def is_taken(self) -> bool:
        """Whether a receiver has taken its tensor."""
        taken: int = _WORD.unpack_from(self._memory, _TAKEN)[0]
        return taken == self.transfer_id

    def begin(self, transfer_id: int) -> bool:
        """Reserve the block for another transfer; return False if a receiver still uses it.

        A late receiver of an earlier transfer detects that in the header.
        """
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.transfer_id = transfer_id
        _WORD.pack_into(self._memory, 0, transfer_id)
        fcntl.flock(self.fd, fcntl.LOCK_UN)
        return True

    def write(self, array: np.ndarray[Any, Any]) -> None:
        """Copy an array into the block, row by row."""
        self.num_bytes = array.nbytes
        destination = np.frombuffer(self._memory, np.uint8, array.nbytes, DATA)
        np.copyto(destination.view(array.dtype).reshape(array.shape), array)

    def view(self, start: int, end: int) -> memoryview:
        """Return a part of the tensor's bytes."""
        return memoryview(self._memory)[DATA + start : DATA + end].toreadonly()

    def close(self) -> None:
        """Release the memory; it is freed when no process has it mapped."""
        os.close(self.fd)
        del self._memory


def map_block(pid: int, fd: int, name: str, transfer_id: int, num_bytes: int) -> mmap.mmap:
    """Return another process's block, mapped for reading; the tensor begins at `DATA`.

    The receiver holds the block until the mapping is removed.

    Raises:
        OSError: the process has ended, or does not permit access to its memory.
        AbortedError: the block no longer holds the transfer.
    """
    own = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        _check(own, name, num_bytes)
        try:
            fcntl.flock(own, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _is_gone() from None  # the sender is about to reuse it
        if _WORD.unpack(os.pread(own, _WORD.size, 0))[0] != transfer_id:
            raise _is_gone()
        os.pwrite(own, _WORD.pack(transfer_id), _TAKEN)
        # The mapping has a duplicate of the file, and with it the lock.
        return mmap.mmap(own, DATA + num_bytes, mmap.MAP_SHARED, mmap.PROT_READ)
    finally:
        os.close(own)


def _check(fd: int, name: str, num_bytes: int) -> None:
    """Refuse a file that has been replaced, or that could shrink while it is read."""
    target = str(Path(f"/proc/self/fd/{fd}").readlink()).removesuffix(" (deleted)")
    if target != f"/memfd:{name}" or not name.startswith(_PREFIX):
        raise _is_gone()
    seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    if not seals & fcntl.F_SEAL_SHRINK or os.fstat(fd).st_size < DATA + num_bytes:
        raise _is_gone()


def _is_gone() -> AbortedError:
    return AbortedError(
        "the sender released a tensor in shared memory before it was read: its step has ended "
        "on the sender, or this task was stopped for too long"
    )
