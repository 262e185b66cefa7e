"""The names by which SavedModels refer to their initializer and to other internal operations."""

from __future__ import annotations

from typing import Final

INIT_SIGNATURE: Final = "__saved_model_init_op"
"""The signature, and its only output, that name the initializer in TensorFlow 2."""
INIT_COLLECTIONS: Final = ("saved_model_main_op", "legacy_init_op")
"""The collections that name the initializer in TensorFlow 1, the first one that exists."""
_PREFIX: Final = "__saved_model_"


def is_internal(key: str) -> bool:
    """Return whether a signature names an initializer or a train op, and is not for callers."""
    return key.startswith(_PREFIX)
