"""SavedModels: `graphmill.saved_model.load(path)`."""

from __future__ import annotations

from graphmill.saved.saved_model import SavedModel, load
from graphmill.saved.signature import Port, Signature, Signatures, TensorSpec

__all__ = ["Port", "SavedModel", "Signature", "Signatures", "TensorSpec", "load"]
