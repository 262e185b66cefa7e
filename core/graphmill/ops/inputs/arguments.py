"""Types of the arguments of op functions, for the stubs of `graphmill.ops.<family>`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill import proto
    from graphmill.dtypes import DType
    from graphmill.ops.attrs.attr_types import FuncAttr, TensorAttr
    from graphmill.ops.inputs.default_graph import SymbolicTensor

_Scalar: TypeAlias = bool | int | float | complex | str | bytes | np.generic

TensorLike: TypeAlias = Union["SymbolicTensor", _Scalar, "NDArray[Any]", Sequence["TensorLike"]]
"""A tensor of a graph, or a value for a Const node."""

DTypeLike: TypeAlias = Union["DType", "np.dtype[Any]", type, str, int]
"""An element type, in any form that `graphmill.dtypes.as_dtype` accepts."""

ShapeLike: TypeAlias = Union[Sequence[int | None], "proto.TensorShapeProto", None]
"""A shape: sizes, None or -1 for an unknown size; None for a shape of unknown rank."""

StringLike: TypeAlias = str | bytes
"""A string; `str` is encoded as UTF-8."""

TensorValue: TypeAlias = Union["TensorAttr", "proto.TensorProto", "NDArray[Any]", TensorLike]
"""The value of a tensor attr."""

FuncLike: TypeAlias = Union["FuncAttr", "proto.NameAttrList", str]
"""A function of the graph's library: its name, optionally with attrs to instantiate it with."""

AttrMap: TypeAlias = Mapping[str, Any]
"""Attrs by name."""
