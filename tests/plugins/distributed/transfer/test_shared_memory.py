"""Shared memory blocks: written, taken, released, timed out, and orphaned by crashes."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphmill import errors
from graphmill.testing.timeouts import within
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.transfer.settings import EXPIRY_SECONDS

if not host_identity():
    pytest.skip("memory cannot be shared on this system", allow_module_level=True)

from graphmill_plugins.distributed.transfer.block_pool import IDLE_SECONDS, BlockPool
from graphmill_plugins.distributed.transfer.shared_block import DATA, map_block

pytestmark = pytest.mark.divided

MEGABYTE = 1 << 20
A = np.arange(MEGABYTE // 4, dtype=np.float32).reshape(4, -1)
SHARED_FILES = Path("/dev/shm")


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pool(clock):
    made = BlockPool(4 * MEGABYTE, clock)
    yield made
    made.close()


def taken(block, num_bytes=A.nbytes):
    mapping = map_block(os.getpid(), block.fd, block.name, block.transfer_id, num_bytes)
    return np.frombuffer(mapping, np.float32, num_bytes // 4, DATA)


def test_a_receiver_sees_the_tensor_and_cannot_write_into_it(pool):
    array = taken(pool.put(A, 1, 11)).reshape(A.shape)
    np.testing.assert_array_equal(array, A)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1


def test_strided_arrays_and_all_types_are_written_row_by_row(pool):
    block = pool.put(A.T[::2], 1, 11)
    np.testing.assert_array_equal(taken(block, A.nbytes // 2), A.T[::2].ravel())


def test_block_is_reused_after_receiver_releases_it(pool):
    first = pool.put(A, 1, 11)
    array = taken(first)
    second = pool.put(A + 1, 1, 12)
    assert second is not first
    np.testing.assert_array_equal(array, A.ravel())
    assert pool.num_in_use == 2
    del array
    gc.collect()
    assert pool.put(A, 1, 13) is first
    assert pool.num_bytes == first.capacity + second.capacity


def test_end_of_step_frees_unclaimed_blocks(pool):
    block = pool.put(A, 1, 11)
    pool.end_step(2)
    assert pool.find(11) is block
    pool.end_step(1)
    assert pool.find(11) is None
    assert pool.put(A, 3, 12) is block


def test_end_of_step_keeps_claimed_blocks(pool):
    array = taken(pool.put(A, 1, 11))
    pool.end_step(1)
    pool.put(A + 1, 2, 12)
    np.testing.assert_array_equal(array, A.ravel())


def test_late_receiver_is_aborted(pool):
    block = pool.put(A, 1, 11)
    pool.end_step(1)
    pool.put(A + 1, 2, 12)
    with pytest.raises(errors.AbortedError, match="released a tensor in shared memory"):
        map_block(os.getpid(), block.fd, block.name, 11, A.nbytes)


def test_unclaimed_block_is_freed_after_timeout(pool, clock):
    block = pool.put(A, 1, 11)
    clock.now += EXPIRY_SECONDS - 1
    assert pool.put(A, 2, 12) is not block
    clock.now += 2
    assert pool.put(A, 3, 13) is block


def test_idle_blocks_are_closed_at_the_end_of_a_step(pool, clock):
    pool.put(A, 1, 11)
    pool.end_step(1)
    assert pool.num_bytes > 0
    clock.now += IDLE_SECONDS
    pool.end_step(2)
    assert pool.num_bytes == 0


def test_pool_stays_within_its_bounds(pool):
    arrays = [taken(pool.put(A, 1, number)) for number in range(1, 4)]
    last = pool.put(A, 1, 4)
    assert pool.put(A, 1, 5) is None
    assert pool.num_bytes <= 4 * MEGABYTE
    assert arrays
    pool.end_step(1)
    assert pool.put(A, 2, 6) is last


def test_idle_blocks_of_another_size_make_room(pool):
    small = A[0].copy()
    for number in range(8):
        pool.put(small, 1, number + 1)
    pool.end_step(1)
    large = np.zeros(3 * MEGABYTE, np.uint8)
    assert pool.put(large, 2, 99) is not None
    assert pool.num_bytes <= 4 * MEGABYTE


def test_foreign_files_are_not_mapped(pool, tmp_path):
    block = pool.put(A, 1, 11)
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2 * MEGABYTE)
        for fd, name in ((file.fileno(), block.name), (block.fd, "graphmill-other")):
            with pytest.raises(errors.AbortedError):
                map_block(os.getpid(), fd, name, 11, A.nbytes)
    with pytest.raises(errors.AbortedError):
        map_block(os.getpid(), block.fd, block.name, 11, A.nbytes * 2)  # it is shorter
    with pytest.raises(OSError, match="No such file"):
        map_block(os.getpid(), 10**6, block.name, 11, A.nbytes)


def test_a_forked_child_does_not_write_into_its_parents_blocks(pool, monkeypatch):
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)
    assert pool.put(A, 1, 11) is None


RECEIVER = """
import sys
from graphmill_plugins.distributed.transfer.shared_block import map_block
pid, fd, name, transfer, size = sys.argv[1:]
mapping = map_block(int(pid), int(fd), name, int(transfer), int(size))
print("mapped", flush=True)
sys.stdin.read()
"""

SENDER = """
import sys
import numpy as np
from graphmill_plugins.distributed.transfer.block_pool import BlockPool
block = BlockPool(1 << 30).put(np.arange(1 << 18, dtype=np.float32), 1, 11)
print(block.fd, block.name, flush=True)
sys.stdin.read()
"""


def child(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def killed(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_killed_receiver_releases_its_block(pool):
    files = set(SHARED_FILES.iterdir())
    block = pool.put(A, 1, 11)
    with child(RECEIVER, os.getpid(), block.fd, block.name, 11, A.nbytes) as receiver:
        assert within(receiver.stdout.readline, "the receiver") == "mapped\n"
        assert pool.put(A, 1, 12) is not block
        killed(receiver)
    assert pool.put(A, 1, 13) is block
    assert set(SHARED_FILES.iterdir()) <= files


def test_killed_sender_leaves_only_claimed_blocks():
    files = set(SHARED_FILES.iterdir())
    with child(SENDER) as sender:
        fd, name = within(sender.stdout.readline, "the sender").split()
        mapping = map_block(sender.pid, int(fd), name, 11, A.nbytes)
        killed(sender)
        with pytest.raises(OSError, match="No such"):
            map_block(sender.pid, int(fd), name, 11, A.nbytes)
    np.testing.assert_array_equal(np.frombuffer(mapping, np.float32, A.size, DATA), A.ravel())
    assert f"memfd:{name}" in Path("/proc/self/maps").read_text()
    del mapping
    gc.collect()
    assert f"memfd:{name}" not in Path("/proc/self/maps").read_text()
    assert set(SHARED_FILES.iterdir()) <= files
