"""`Variable`: a tensor with an initial value that persists between steps.

    w = graphmill.Variable([[1.0, 2.0]], name="w")
    session.run(graphmill.global_variables_initializer())

Semantics: tf.compat.v1.Variable, tensorflow/python/ops/variables.py and
resource_variable_ops.py. The nodes have the names that TensorFlow gives them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from graphmill.deprecations import renamed_arguments, warn_renamed
from graphmill.errors import InvalidArgumentError
from graphmill.graph.default_session import session_for
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node import output_name
from graphmill.graph.tensor import Tensor
from graphmill.graph.variable_updates import VariableUpdates
from graphmill.ops import array, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.default_session import SessionLike
    from graphmill.graph.node import Node
    from graphmill.ops.inputs.arguments import DTypeLike, ShapeLike
    from graphmill.proto import VariableDef


VARIABLES_ADVICE: Final = (
    "Create some with graphmill.Variable, or get those of a MetaGraph with "
    "graphmill.train.import_meta_graph"
)
"""Advice to readers of errors about a graph that has no variables."""


class Variable(VariableUpdates, Tensor):
    """A variable; used as a tensor, it is the value that the step reads.

    Attributes:
        handle: the resource handle, or the reference of a variable that is not a resource.
        initializer: the node that assigns the initial value.
        initial_value: the initial value, as a tensor.
        trainable: whether optimizers update it by default.
        is_resource: whether it is a resource variable.
        variable_name: its name without an output index, as in checkpoints.
        static_shape: its shape; None if it is unknown.
    """

    __slots__ = (
        "handle",
        "initial_value",
        "initializer",
        "is_resource",
        "static_shape",
        "trainable",
        "variable_name",
    )

    def __init__(
        self,
        initial_value: Any,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike | None = None,
        *,
        shape: ShapeLike = None,
        use_resource: bool = True,
    ) -> None:
        """Add a variable to the graph of its initial value, or to the default graph.

        Args:
            initial_value: a value or tensor, or a function without arguments that returns one.
            trainable: whether optimizers update it by default.
            name: its name, by default `Variable`.
            dtype: its element type, by default that of the initial value.
            shape: its shape, by default the static shape of the initial value.
            use_resource: whether it is a resource variable instead of a ref variable.

        Raises:
            InvalidArgumentError: the initial value is not a tensor, or has another shape than
                `shape`.
        """
        graph = infer_graph() if callable(initial_value) else infer_graph(initial_value)
        with (
            graph.as_default(),
            graph.control_dependencies(None),
            graph.name_scope(name or "Variable") as scope,
        ):
            self.variable_name = scope.rstrip("/")
            value = initial_value() if callable(initial_value) else initial_value
            self.initial_value = graph.convert(value, dtype, name="initial_value")
            self.static_shape = _known_shape(self.initial_value, shape)
            self.trainable = trainable
            self.is_resource = use_resource
            build = _resource_variable if use_resource else _ref_variable
            self.handle, self.initializer, read = build(self, scope)
        super().__init__(read.op, read.value_index)
        graph.variables.append(self)

    @classmethod
    def from_proto(cls, definition: VariableDef, graph: Graph) -> Variable:
        """Return a variable of existing nodes of a graph; it is not added to the graph's variables.

        Args:
            definition: a `VariableDef` message, which names the nodes.
            graph: the graph with these nodes.

        Raises:
            OpError: the graph lacks a node or tensor.
        """
        variable = cls.__new__(cls)
        variable.handle = graph.get_tensor_by_name(definition.variable_name)
        variable.variable_name = definition.variable_name.partition(":")[0]
        variable.initializer = graph.get_operation_by_name(definition.initializer_name)
        variable.is_resource = definition.is_resource
        variable.trainable = definition.trainable
        shape = variable.handle.op.attrs.get("shape")
        is_known = shape is not None and min(shape, default=0) >= 0
        variable.static_shape = tuple(shape or ()) if is_known else None
        read = graph.get_tensor_by_name(definition.snapshot_name)
        Tensor.__init__(variable, read.op, read.value_index)
        # Programs before TensorFlow 1.5 did not write the name of the initial value.
        initial = definition.initial_value_name
        variable.initial_value = graph.get_tensor_by_name(initial) if initial else read
        return variable

    @property
    def name(self) -> str:
        """Name of its handle, `v:0`; a session that is given this name returns the handle."""
        return self.handle.name

    @property
    def value_dtype(self) -> DType:
        """Element type of its value."""
        return self.initial_value.dtype.base_dtype

    def value(self) -> Tensor:
        """Return the value that the step reads, as the variable itself is when used as a tensor."""
        return Tensor(self.op, self.value_index)

    def eval(  # type: ignore[override]
        self, session: SessionLike | None = None, *, feed_dict: Mapping[Any, Any] | None = None
    ) -> Any:
        """Return its value in a session, by default the default session.

        Raises:
            FailedPreconditionError: there is no session, or the variable has no value in it.
        """
        return super().eval(feed_dict, session)

    def load(self, value: Any, session: SessionLike | None = None) -> None:
        """Assign a value in a session, by default the default session, without adding nodes.

        Raises:
            FailedPreconditionError: there is no session.
        """
        running = session_for(session, f"the variable {self.variable_name!r}")
        running.run(self.initializer, {self.initial_value: value})

    def read_value(self) -> Tensor:
        """Return a new read of the variable, after the enclosing control dependencies."""
        if self.is_resource:
            return state.read_variable_op(self.handle, dtype=self.value_dtype)
        return array.identity(self.handle)

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Assign a value to the variable.

        Args:
            value: the value.
            use_locking: whether a ref variable is locked meanwhile; resource variables always are.
            name: the name of the node that assigns.
            read_value: whether to return the new value; otherwise, the node is returned.
        """
        ops = state.assign_variable_op, state.assign
        return self._changed(value, *ops, use_locking, name, read_value)

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Add to the variable; arguments and result are those of `assign`."""
        ops = state.assign_add_variable_op, state.assign_add
        return self._changed(delta, *ops, use_locking, name, read_value)

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtract from the variable; arguments and result are those of `assign`."""
        ops = state.assign_sub_variable_op, state.assign_sub
        return self._changed(delta, *ops, use_locking, name, read_value)

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return a bool tensor that is true if the variable has a value."""
        if self.is_resource:
            return state.var_is_initialized_op(self.handle, name=name)
        return state.is_variable_initialized(self.handle, name=name)

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value if it has none yet."""
        from graphmill.graph.control_flow.cond import cond  # few programs need it

        with self.graph.as_default():
            value: Tensor = cond(self.is_initialized(), self.read_value, lambda: self.initial_value)
        return value

    def to_proto(self) -> VariableDef:
        """Return the names of its nodes as a message; `from_proto` takes it."""
        from graphmill.proto import VariableDef

        return VariableDef(
            variable_name=self.handle.name,
            initial_value_name=self.initial_value.name,
            initializer_name=self.initializer.name,
            snapshot_name=output_name(self),
            is_resource=self.is_resource,
            trainable=self.trainable,
        )

    def _changed(
        self,
        value: Any,
        by_handle: Callable[..., Any],
        by_ref: Callable[..., Any],
        use_locking: bool,
        name: str | None,
        read_value: bool,
    ) -> Any:
        value = self.graph.convert(value, self.value_dtype)
        if not self.is_resource:
            changed = by_ref(self.handle, value, use_locking=use_locking, name=name)
            return changed if read_value else changed.op
        changed = by_handle(self.handle, value, name=name)
        if not read_value:
            return changed
        with self.graph.control_dependencies([changed]):
            return self.read_value()

    def __repr__(self) -> str:
        shape = "<unknown>" if self.static_shape is None else self.static_shape
        return f"<Variable {self.name!r} shape={shape} dtype={self.value_dtype.name}>"


def global_variables(
    scope: str | Graph | None = None, *, graph: Graph | None = None
) -> list[Variable]:
    """Return all variables of a graph in order of creation.

    Args:
        scope: a regular expression; only variables whose names begin with it are returned. A graph
            is accepted with a warning for one version.
        graph: the graph; by default the default graph.
    """
    return _variables("global_variables", scope, graph)


def trainable_variables(
    scope: str | Graph | None = None, *, graph: Graph | None = None
) -> list[Variable]:
    """Return the variables of a graph that optimizers update by default.

    Args:
        scope: a regular expression; only variables whose names begin with it are returned. A graph
            is accepted with a warning for one version.
        graph: the graph; by default the default graph.
    """
    return [item for item in _variables("trainable_variables", scope, graph) if item.trainable]


def _variables(caller: str, scope: str | Graph | None, graph: Graph | None) -> list[Variable]:
    """Return the variables of a graph whose names begin with a pattern."""
    if scope is not None and not isinstance(scope, str):
        warn_renamed(f"the first argument, a graph, of {caller}", "graph", stacklevel=4)
        scope, graph = None, scope
    variables = (infer_graph() if graph is None else graph).variables
    return [item for item in variables if scope is None or re.match(scope, item.name)]


@renamed_arguments(variables="var_list")
def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Node:
    """Return a node that assigns the initial values of variables."""
    return group(*(variable.initializer for variable in var_list), name=name)


def global_variables_initializer(graph: Graph | None = None) -> Node:
    """Return a node that assigns the initial values of all variables of a graph."""
    graph = infer_graph() if graph is None else graph
    with graph.as_default():
        return variables_initializer(graph.variables)


def _known_shape(initial: Tensor, shape: ShapeLike) -> tuple[int, ...] | None:
    """Return the declared shape, or that of the initial value; None if neither is known."""
    inferred = initial.shape
    known = tuple(inferred.as_list()) if inferred.is_fully_defined() else None
    if shape is None:
        return known  # type: ignore[return-value]
    sizes = tuple(-1 if size is None else size for size in shape)  # type: ignore[union-attr]
    if min(sizes, default=0) < 0:
        raise InvalidArgumentError(f"the shape {sizes} of a variable is not fully specified")
    if not inferred.is_compatible_with(sizes):
        raise InvalidArgumentError(
            f"the initial value has shape {inferred}, but the variable was given shape {sizes}; "
            "pass no shape, or an initial value of that shape"
        )
    return sizes


def _resource_variable(variable: Variable, scope: str) -> tuple[Tensor, Node, Tensor]:
    name, dtype = variable.variable_name, variable.value_dtype
    handle = state.var_handle_op(
        dtype=dtype, shape=variable.static_shape, shared_name=name, name=scope
    )
    initializer = state.assign_variable_op(handle, variable.initial_value, name="Assign")
    read = state.read_variable_op(handle, dtype=dtype, name="Read/ReadVariableOp")
    return handle, initializer, read


def _ref_variable(variable: Variable, scope: str) -> tuple[Tensor, Node, Tensor]:
    ref = state.variable_v2(shape=variable.static_shape, dtype=variable.value_dtype, name=scope)
    initial = variable.initial_value
    known = variable.static_shape is not None
    assigned: Tensor = state.assign(ref, initial, validate_shape=known, name="Assign")
    return ref, assigned.op, array.identity(ref, name="read")
