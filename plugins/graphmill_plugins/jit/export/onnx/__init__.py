"""Export graphs as ONNX models: one conversion for each op, in a registry that plugins extend."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.spi import Registrar

_MODULES: Final = (
    "comparison elementwise images indexing linear lists normalization pooling reductions shapes"
)


def register(conversions: Registrar[object]) -> None:
    """Register the conversions of TensorFlow's ops."""
    for name in _MODULES.split():
        module = import_module(f"{__name__}.ops.{name}")
        for op, function in module.CONVERSIONS.items():
            conversions.add(op, function)
