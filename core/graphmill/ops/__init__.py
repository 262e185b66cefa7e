"""Ops: the definitions of TensorFlow's ops as data, and a Python function for each op.

    from graphmill import ops
    y = ops.math.add_v2(x, 1.0)

Definitions are in `op_defs.jsonl`, one line per op, which `graphmill.ops.definition.op_registry`
parses on first use of the op. They cover the ops that the 2.21 wheel registers
(`tools/make_op_defs.py` compares), and those that only 1.15 had, from its list of ops and its C++
registrations. They omit TensorFlow's descriptions; the families are ours.

The modules of the families (`graphmill.ops.math` …) are imported on first use, and create each
function on first access. Type checkers and editors read the `.pyi` files next to them, which
`tools/make_op_stubs.py` generates.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

    from graphmill.ops import array as array
    from graphmill.ops import audio as audio
    from graphmill.ops import control_flow as control_flow
    from graphmill.ops import data_flow as data_flow
    from graphmill.ops import dataset as dataset
    from graphmill.ops import distributed as distributed
    from graphmill.ops import functional as functional
    from graphmill.ops import image as image
    from graphmill.ops import io as io
    from graphmill.ops import linalg as linalg
    from graphmill.ops import logging as logging
    from graphmill.ops import lookup as lookup
    from graphmill.ops import math as math
    from graphmill.ops import mkl as mkl
    from graphmill.ops import nn as nn
    from graphmill.ops import parsing as parsing
    from graphmill.ops import quantized as quantized
    from graphmill.ops import ragged as ragged
    from graphmill.ops import random as random
    from graphmill.ops import risc as risc
    from graphmill.ops import signal as signal
    from graphmill.ops import sparse as sparse
    from graphmill.ops import state as state
    from graphmill.ops import string as string
    from graphmill.ops import summary as summary
    from graphmill.ops import tensor_array as tensor_array
    from graphmill.ops import tensor_list as tensor_list
    from graphmill.ops import tensorrt as tensorrt
    from graphmill.ops import testing as testing
    from graphmill.ops import tpu as tpu
    from graphmill.ops import training as training
    from graphmill.ops import trees as trees
    from graphmill.ops import variant as variant
    from graphmill.ops import xla as xla

FAMILIES: Final = (
    "array",
    "audio",
    "control_flow",
    "data_flow",
    "dataset",
    "distributed",
    "functional",
    "image",
    "io",
    "linalg",
    "logging",
    "lookup",
    "math",
    "mkl",
    "nn",
    "parsing",
    "quantized",
    "ragged",
    "random",
    "risc",
    "signal",
    "sparse",
    "state",
    "string",
    "summary",
    "tensor_array",
    "tensor_list",
    "tensorrt",
    "testing",
    "tpu",
    "training",
    "trees",
    "variant",
    "xla",
)
"""The families of TensorFlow's ops, each with a module of functions."""


def __getattr__(name: str) -> ModuleType:
    """Import the module of a family on first use."""
    if name in FAMILIES:
        return import_module(f"{__name__}.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphmill.errors import suggest
    from graphmill.tensorflow_names import hint

    more = hint(name, __path__[0]) or suggest(name, FAMILIES)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}{more} "
        f"(the families of ops are {', '.join(FAMILIES)})"
    )


def __dir__() -> list[str]:
    """List the module's names, including families that are not imported yet."""
    return sorted({*globals(), *FAMILIES})
