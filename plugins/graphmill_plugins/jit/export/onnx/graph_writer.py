"""`GraphWriter`: collect the nodes and constants of an ONNX model."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Array = np.ndarray[Any, Any]

OPSET: Final = 18
"""The version of ONNX's ops."""

_COMPUTED: Final = (
    "Add Cast Concat Gather Mul Range ReduceProd Reshape Slice Squeeze Sub Transpose Unsqueeze"
)
"""Ops that compute shapes and axes, or change the layout of weights."""


class ListTensor(NamedTuple):
    """A tensor whose rows are the elements of a tensor array or list.

    Attributes:
        element_type: ONNX's number of the element type.
        has_rank: whether the rank of an element is that of the tensor's rows from the beginning.
        grows: whether a write after the last row adds rows.
    """

    element_type: int
    has_rank: bool = True
    grows: bool = False


class GraphWriter:
    """The nodes and constants that are written so far.

    Nodes go to the innermost open graph; constants to the outermost, where inner graphs see them.

    Attributes:
        constants: the values of tensors that are the same for all inputs, by name.
        initializers: the messages of constants.
        lists: the tensors that stand for tensor arrays and lists, by name.
    """

    def __init__(self) -> None:
        import onnx  # an optional package

        self._onnx = onnx
        self._names: Counter[str] = Counter()
        self._graphs: list[list[Any]] = [[]]
        self._initializer_names: dict[Any, str] = {}
        self.constants: dict[str, Array] = {}
        self.initializers: list[Any] = []
        self.lists: dict[str, ListTensor] = {}

    @property
    def nodes(self) -> list[Any]:
        """The nodes of the innermost open graph."""
        return self._graphs[-1]

    def unique(self, name: str) -> str:
        """Return an unused name of a tensor or node that begins with `name`."""
        self._names[name] += 1
        if self._names[name] == 1:
            return name
        return self.unique(f"{name}__{self._names[name] - 1}")

    def constant(self, value: Any, name: str = "const") -> str:
        """Return the name of a constant; equal ones share a name."""
        array: Array = np.asarray(value)
        is_text = array.dtype == object
        content = tuple(array.reshape(-1).tolist()) if is_text else array.tobytes()
        key = (str(array.dtype), array.shape, content if array.nbytes < 1024 else id(value))
        known = self._initializer_names.get(key)
        if known is not None and array.nbytes < 1024:
            return known
        unique = self.unique(name)
        self._initializer_names[key] = unique
        self.initializers.append(self._onnx.numpy_helper.from_array(array, unique))
        self.constants[unique] = array
        return unique

    def emit(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attrs: Any
    ) -> tuple[str, ...]:
        """Add a node, and return the names of its outputs.

        A node of which all inputs are constants is computed now.

        Args:
            op: the ONNX op.
            inputs: the names of its inputs; "" for one that is left out.
            outputs: names that its outputs get, made unique.
            attrs: its attributes.
        """
        if op in _COMPUTED.split() and all(not name or self._is_number(name) for name in inputs):
            return tuple(
                map(self.constant, self._results(op, inputs, len(outputs), attrs), outputs)
            )
        names = tuple(self.unique(name) for name in outputs)
        node = self._onnx.helper.make_node(op, list(inputs), list(names), **attrs)
        node.name = names[0]
        self.nodes.append(node)
        return names

    def _is_number(self, name: str) -> bool:
        value = self.constants.get(name)
        return value is not None and value.dtype.kind in "biuf"

    def _results(
        self, op: str, inputs: Sequence[str], count: int, attrs: Mapping[str, Any]
    ) -> list[Any]:
        """Compute a node of constants by ONNX's own evaluator."""
        from onnx.reference import ReferenceEvaluator

        helper = self._onnx.helper
        outputs = [f"result_{index}" for index in range(count)]
        node = helper.make_node(op, list(inputs), outputs, **attrs)
        feeds = {name: self.constants[name] for name in inputs if name}
        types = helper.np_dtype_to_tensor_dtype
        ports = [
            self.value_info(name, types(value.dtype), value.shape) for name, value in feeds.items()
        ]
        results = [self.value_info(name, 1, None) for name in outputs]
        graph = helper.make_graph([node], op, ports, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        return list(ReferenceEvaluator(model).run(None, feeds))

    def used_initializers(self) -> list[Any]:
        """Return the constants that nodes read, also nodes of inner graphs."""
        used: set[str] = set()
        stack = list(self.nodes)
        while stack:
            node = stack.pop()
            used.update(node.input)
            for attribute in node.attribute:
                stack.extend(attribute.g.node)
        return [one for one in self.initializers if one.name in used]

    @contextmanager
    def inner_graph(self) -> Iterator[list[Any]]:
        """Open a graph, for the branch of a conditional or the body of a loop; yield its nodes."""
        self._graphs.append([])
        try:
            yield self._graphs[-1]
        finally:
            self._graphs.pop()

    def graph(
        self, name: str, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Any:
        """Return the message of an inner graph."""
        return self._onnx.helper.make_graph(list(nodes), name, list(inputs), list(outputs))

    def value_info(self, name: str, element_type: int, shape: Sequence[int | str] | None) -> Any:
        """Return the message that declares a tensor; sizes that are names stand for any size."""
        return self._onnx.helper.make_tensor_value_info(name, element_type, shape)
