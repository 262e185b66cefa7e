"""Indexed flat maps: offsets that TensorFlow does not check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import graphmill
from graphmill import errors, ops, proto

INT: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}

_IDENTITY = """
signature { name: "same" input_arg { name: "x" type: DT_INT64 }
            output_arg { name: "y" type: DT_INT64 } }
ret { key: "y" value: "x" }
"""
_PLACE = """
signature { name: "place" input_arg { name: "i" type: DT_INT64 }
            output_arg { name: "p" type: DT_INT64 } output_arg { name: "o" type: DT_INT64 } }
ret { key: "p" value: "i" }
ret { key: "o" value: "i" }
"""


def const(value: Any) -> Any:
    return ops.array.const(value=np.array(value, np.int64), dtype=graphmill.as_dtype("int64"))


def test_index_flat_map_refuses_an_offset_beyond_the_rows() -> None:
    graph = graphmill.Graph()
    for text in (_IDENTITY, _PLACE):
        graph.library.add(text_format.Parse(text, proto.FunctionDef()))
    with graph.as_default():
        rows = ops.dataset.tensor_slice_dataset([const([[1], [2]])], output_shapes=[[1]])
        flat = ops.dataset.index_flat_map_dataset(
            rows, [], [], const(2), map_func="same", index_map_func="place", **INT
        )
        first, second = (
            ops.dataset.get_element_at_index(flat, const(index), **INT)[0] for index in (0, 1)
        )
    with graphmill.Session(graph=graph) as session:
        assert int(session.run(first)) == 1
        with pytest.raises(errors.InvalidArgumentError, match=r"offset 1 .* out of range"):
            session.run(second)
