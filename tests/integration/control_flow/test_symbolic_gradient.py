"""SymbolicGradient (clause E10): the gradient of a function, registered or by JAX."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto

_TEXT = """
library {
  function {
    signature {
      name: "F"
      input_arg { name: "x" type: DT_FLOAT }
      input_arg { name: "n" type: DT_INT32 }
      output_arg { name: "y" type: DT_FLOAT }
    }
    node_def {
      name: "square" op: "Mul" input: "x" input: "x"
      attr { key: "T" value { type: DT_FLOAT } }
    }
    node_def {
      name: "%(last)s" op: "%(last)s" input: "square:z:0"
      attr { key: "T" value { type: DT_FLOAT } }
    }
    ret { key: "y" value: "%(last)s:y:0" }
  }
  function {
    signature {
      name: "G"
      input_arg { name: "x" type: DT_FLOAT }
      input_arg { name: "n" type: DT_INT32 }
      input_arg { name: "dy" type: DT_FLOAT }
      output_arg { name: "dx" type: DT_FLOAT }
      output_arg { name: "dn" type: DT_INT32 }
    }
    ret { key: "dx" value: "dy" }
    ret { key: "dn" value: "n" }
  }
  %(gradient)s
}
node {
  name: "x" op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { unknown_rank: true } } }
}
node {
  name: "n" op: "Placeholder"
  attr { key: "dtype" value { type: DT_INT32 } } attr { key: "shape" value { shape { } } }
}
node {
  name: "dy" op: "Placeholder"
  attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { unknown_rank: true } } }
}
node {
  name: "grad" op: "SymbolicGradient" input: "x" input: "n" input: "dy"
  attr { key: "Tin" value { list { type: DT_FLOAT type: DT_INT32 type: DT_FLOAT } } }
  attr { key: "Tout" value { list { type: DT_FLOAT type: DT_INT32 } } }
  attr { key: "f" value { func { name: "F" } } }
}
"""


def graph_def(last="Exp", gradient=""):
    from google.protobuf import text_format

    return text_format.Parse(_TEXT % {"last": last, "gradient": gradient}, proto.GraphDef())


FEEDS = {"x:0": [0.5, -1.0], "n:0": 3, "dy:0": [1.0, 2.0]}


@pytest.mark.jax
def test_e10_jax_differentiates_a_function() -> None:
    pytest.importorskip("jax")
    with graphmill.Session(graph=graph_def()) as session:
        dx, dn = session.run(["grad:0", "grad:1"], FEEDS)
    x, dy = np.array(FEEDS["x:0"]), np.array(FEEDS["dy:0"])
    np.testing.assert_allclose(dx, dy * np.exp(x * x) * 2 * x, rtol=1e-6)
    assert dx.dtype == np.float32
    assert dn == 0


def test_e10_a_registered_gradient_is_called() -> None:
    registered = 'gradient { function_name: "F" gradient_func: "G" }'
    with graphmill.Session(graph=graph_def(gradient=registered)) as session:
        dx, dn = session.run(["grad:0", "grad:1"], FEEDS)
    np.testing.assert_array_equal(dx, FEEDS["dy:0"])
    assert dn == 3


@pytest.mark.jax
def test_e10_function_without_jax_kernels_names_missing_ones() -> None:
    pytest.importorskip("jax")
    message = graph_def()
    node = message.library.function[0].node_def[1]
    node.op = "Print"
    node.input.append("square:z:0")
    node.attr["U"].list.type.append(proto.DataType.Value("DT_FLOAT"))
    message.library.function[0].ret["y"] = "Exp:output:0"
    with (
        graphmill.Session(graph=message) as session,
        pytest.raises(errors.OpError, match="Print") as caught,
    ):
        session.run("grad:0", FEEDS)
    assert caught.value.node is not None
