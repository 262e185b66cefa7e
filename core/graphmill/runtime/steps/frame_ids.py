"""Frame and iteration ids in rendezvous keys: `<frame id>:<iteration>`.

The two ends of an edge between tasks may be in different runtimes, so the ids are TensorFlow's: a
hash of the frame's name, its parent iteration and its parent frame.

Semantics: `tensorflow/core/common_runtime/propagator_state.cc` (FindOrCreateChildFrame) and
`tensorflow/core/platform/hash.cc`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

ROOT_FRAME_ID: Final = 0
"""Id of the root frame, outside of all loops."""
ROOT_FRAME_ITERATION: Final = "0:0"
"""Frame and iteration of values that are sent outside of loops."""

_MASK: Final = (1 << 64) - 1
_FACTOR: Final = 0xC6A4A7935BD1E995
_SEED: Final = 0xDECAFCAFFE
_GOLDEN: Final = 0x9E3779B97F4A7800
_WORD: Final = 8


def child_frame_id(parent: int, iteration: int, name: str) -> int:
    """Return the id of a frame that is entered from an iteration of another one.

    Args:
        parent: id of the parent frame; `ROOT_FRAME_ID` outside of loops.
        iteration: index of the iteration of the parent frame.
        name: the frame's name, an attr of its `Enter` nodes.
    """
    return _combined(parent, _combined(iteration, hash64(name.encode("utf-8", "surrogateescape"))))


@lru_cache(maxsize=1024)
def hash64(data: bytes) -> int:
    """Return TensorFlow's `Hash64` of a text: MurmurHash64A with TensorFlow's seed."""
    whole = len(data) - len(data) % _WORD
    state = _SEED ^ (len(data) * _FACTOR & _MASK)
    for start in range(0, whole, _WORD):
        block = int.from_bytes(data[start : start + _WORD], "little") * _FACTOR & _MASK
        state = (state ^ (_mixed(block) * _FACTOR & _MASK)) * _FACTOR & _MASK
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _FACTOR & _MASK
    return _mixed(_mixed(state) * _FACTOR & _MASK)


def _mixed(value: int) -> int:
    return value ^ (value >> 47)


def _combined(one: int, other: int) -> int:
    return one ^ ((other + _GOLDEN + (one << 10) + (one >> 4)) & _MASK)
