"""Run exported models by ONNX Runtime, or by ONNX's own evaluator where that is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.export import convert

if TYPE_CHECKING:
    from collections.abc import Mapping

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

needs_runtime = pytest.mark.skipif(
    onnxruntime is None, reason="ONNX's own evaluator computes these ops in another way"
)


def run_onnx(message: Any, feeds: Mapping[str, Any]) -> list[Any]:
    feeds = {name: np.asarray(value) for name, value in feeds.items()}
    if onnxruntime is None:
        from onnx.reference import ReferenceEvaluator

        with np.errstate(all="ignore"):
            return list(ReferenceEvaluator(message).run(None, feeds))
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(message.SerializeToString(), providers=providers)
    return list(session.run(None, feeds))


def assert_same(
    graph: graphmill.Graph,
    inputs: Mapping[str, Any],
    outputs: Any,
    feeds: Mapping[str, Any],
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> Any:
    """Compare a session's results with those of the exported model, which is returned."""
    fetches = outputs if isinstance(outputs, list) else [outputs]
    named = {f"result_{index}": tensor for index, tensor in enumerate(fetches)}
    with graphmill.Session(graph=graph) as session:
        if graph.variables:
            session.run(graphmill.global_variables_initializer(graph))
        expected = session.run(fetches, {inputs[name]: value for name, value in feeds.items()})
        model = convert(session, "onnx", inputs, named)
    found = run_onnx(model.message, feeds)
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    return model
