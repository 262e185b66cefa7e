"""graphmill: run TensorFlow graphs without TensorFlow.

    import graphmill

    with graphmill.Session(graph="model.pb") as session:
        print(session.run("y:0", {"x:0": [1.0, 2.0]}))  # [2. 4.]

Names are imported lazily, on first use, so `import graphmill` is fast.
"""

from __future__ import annotations

import importlib
from os.path import exists
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill import (
        batch,
        comparison,
        data,
        debug,
        dtypes,
        errors,
        export,
        functions,
        initializers,
        losses,
        ops,
        report,
        saved_model,
        summary,
        tf_record,
        timeline,
        train,
    )
    from graphmill import explain as explain
    from graphmill import isolation as isolation
    from graphmill import proto as proto
    from graphmill.backprop.gradient_options import AggregationMethod
    from graphmill.backprop.gradients import gradients
    from graphmill.backprop.indexed_slices import IndexedSlices
    from graphmill.distributed.server import Server
    from graphmill.dtypes import DType, as_dtype
    from graphmill.graph.assertion import Assert
    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.case import case
    from graphmill.graph.control_flow.cond import cond
    from graphmill.graph.control_flow.switch_case import switch_case
    from graphmill.graph.control_flow.while_loop import while_loop
    from graphmill.graph.default_session import get_default_session
    from graphmill.graph.dependencies import group, with_dependencies
    from graphmill.graph.dependencies import tuple as tuple  # noqa: A004 - TensorFlow's name
    from graphmill.graph.random_seed import get_seed, set_random_seed
    from graphmill.graph.tensor import Tensor
    from graphmill.graph.variable import (
        Variable,
        global_variables,
        global_variables_initializer,
        trainable_variables,
        variables_initializer,
    )
    from graphmill.ops.control_flow import no_op
    from graphmill.ops.definition.define import op
    from graphmill.ops.definition.op_functions import op_function
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.ops.inference.tensor_shape import TensorShape
    from graphmill.ops.inputs.default_graph import get_default_graph
    from graphmill.plugin.gradient_declaration import gradient, not_differentiable
    from graphmill.plugin.host import Host, default_host
    from graphmill.plugin.markers import hookimpl
    from graphmill.plugin.py_func import py_func, py_function
    from graphmill.proto import (
        CallableOptions,
        ConfigProto,
        GraphDef,
        MetaGraphDef,
        NodeDef,
        RunMetadata,
        RunOptions,
    )
    from graphmill.runtime.kernels.kernel import kernel
    from graphmill.session.interactive_session import InteractiveSession
    from graphmill.session.session import Session
    from graphmill.session.targets import reset

__version__ = "0.1.0"

__all__ = [
    "AggregationMethod",
    "Assert",
    "CallableOptions",
    "ConfigProto",
    "DType",
    "Graph",
    "GraphDef",
    "Host",
    "IndexedSlices",
    "InteractiveSession",
    "MetaGraphDef",
    "NodeDef",
    "RunMetadata",
    "RunOptions",
    "Server",
    "Session",
    "Tensor",
    "TensorShape",
    "Variable",
    "as_dtype",
    "batch",
    "case",
    "comparison",
    "cond",
    "data",
    "debug",
    "default_host",
    "dtypes",
    "errors",
    "export",
    "functions",
    "get_default_graph",
    "get_default_session",
    "get_seed",
    "global_variables",
    "global_variables_initializer",
    "gradient",
    "gradients",
    "group",
    "hookimpl",
    "initializers",
    "kernel",
    "losses",
    "no_op",
    "not_differentiable",
    "op",
    "op_function",
    "ops",
    "py_func",
    "py_function",
    "report",
    "reset",
    "saved_model",
    "set_random_seed",
    "summary",
    "switch_case",
    "tf_record",
    "timeline",
    "train",
    "trainable_variables",
    "variables_initializer",
    "while_loop",
    "with_dependencies",
]

_MODULES = {
    *("batch", "comparison", "debug", "data", "dtypes", "errors", "explain", "export"),
    *("functions", "initializers", "isolation", "losses", "ops", "proto", "report"),
    *("saved_model", "summary", "tf_record", "timeline", "train"),
}
_HOMES = {
    "Assert": "graphmill.graph.assertion",
    "CallableOptions": "graphmill.proto",
    "ConfigProto": "graphmill.proto",
    "DType": "graphmill.dtypes",
    "Graph": "graphmill.graph.builder",
    "GraphDef": "graphmill.proto",
    "Host": "graphmill.plugin.host",
    "AggregationMethod": "graphmill.backprop.gradient_options",
    "IndexedSlices": "graphmill.backprop.indexed_slices",
    "InteractiveSession": "graphmill.session.interactive_session",
    "MetaGraphDef": "graphmill.proto",
    "NodeDef": "graphmill.proto",
    "RunMetadata": "graphmill.proto",
    "RunOptions": "graphmill.proto",
    "Server": "graphmill.distributed.server",
    "Session": "graphmill.session.session",
    "Tensor": "graphmill.graph.tensor",
    "TensorShape": "graphmill.ops.inference.tensor_shape",
    "Variable": "graphmill.graph.variable",
    "as_dtype": "graphmill.dtypes",
    "case": "graphmill.graph.control_flow.case",
    "cond": "graphmill.graph.control_flow.cond",
    "default_host": "graphmill.plugin.host",
    "get_default_session": "graphmill.graph.default_session",
    "get_default_graph": "graphmill.ops.inputs.default_graph",
    "get_seed": "graphmill.graph.random_seed",
    "global_variables": "graphmill.graph.variable",
    "global_variables_initializer": "graphmill.graph.variable",
    "gradient": "graphmill.plugin.gradient_declaration",
    "gradients": "graphmill.backprop.gradients",
    "group": "graphmill.graph.dependencies",
    "hookimpl": "graphmill.plugin.markers",
    "kernel": "graphmill.runtime.kernels.kernel",
    "no_op": "graphmill.ops.control_flow",
    "not_differentiable": "graphmill.plugin.gradient_declaration",
    "op": "graphmill.ops.definition.define",
    "op_function": "graphmill.ops.definition.op_functions",
    "py_func": "graphmill.plugin.py_func",
    "py_function": "graphmill.plugin.py_func",
    "reset": "graphmill.session.targets",
    "set_random_seed": "graphmill.graph.random_seed",
    "switch_case": "graphmill.graph.control_flow.switch_case",
    "trainable_variables": "graphmill.graph.variable",
    "tuple": "graphmill.graph.dependencies",
    "variables_initializer": "graphmill.graph.variable",
    "while_loop": "graphmill.graph.control_flow.while_loop",
    "with_dependencies": "graphmill.graph.dependencies",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"graphmill.{name}")
    home = _HOMES.get(name)
    if home is None:
        # Element types, for example `graphmill.float32`.
        dtype = getattr(importlib.import_module("graphmill.dtypes"), name, None)
        if not name.startswith("_") and type(dtype).__name__ == "DType":
            globals()[name] = dtype
            return dtype
        raise AttributeError(f"module 'graphmill' has no attribute {name!r}{_hint(name)}")
    value = getattr(importlib.import_module(home), name)
    if name in ("Graph", "op_function"):
        from graphmill.ops.definition.op_registry import OpRegistry

        OpRegistry.installed = staticmethod(_installed_ops)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """Return a hint that names graphmill's counterpart of a name of TensorFlow's, or ""."""
    # `from graphmill import module` asks for the attribute before it imports the module.
    is_module = any(exists(f"{__path__[0]}/{name}{end}") for end in ("", ".py"))  # noqa: PTH110
    if is_module or name.startswith("_"):
        return ""
    from graphmill.tensorflow_names import hint

    return hint(name)


def _installed_ops() -> OpRegistry:
    """Return the ops of TensorFlow and of the installed plugins."""
    from graphmill.plugin.host import default_host

    return default_host().ops


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
