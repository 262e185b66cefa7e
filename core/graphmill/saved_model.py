"""SavedModels: `saved_model.load(path)` and `saved_model.save(session, path, signatures)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.saved.saved_model import SavedModel, load
from graphmill.saved.signature import Port, Signature, Signatures, TensorSpec

if TYPE_CHECKING:
    from graphmill.saved.saved_model_writer import build_signature_def, save, simple_save

__all__ = [
    "Port",
    "SavedModel",
    "Signature",
    "Signatures",
    "TensorSpec",
    "build_signature_def",
    "load",
    "save",
    "simple_save",
]


def __getattr__(name: str) -> Any:
    if name not in ("build_signature_def", "save", "simple_save"):
        raise AttributeError(f"module 'graphmill.saved_model' has no attribute {name!r}")
    from graphmill.saved import saved_model_writer  # programs that only load need no Saver

    return getattr(saved_model_writer, name)
