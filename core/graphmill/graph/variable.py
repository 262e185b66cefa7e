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
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.default_session import session_for
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.node import output_name
from graphmill.graph.tensor import Tensor
from graphmill.graph.variable_updates import VariableUpdates
from graphmill.ops import array, state
from graphmill.ops.inference.tensor_shape import checked_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.default_session import SessionLike
    from graphmill.graph.node import Node
    from graphmill.graph.scopes.device_scopes import DeviceSpec
    from graphmill.ops.inference.tensor_shape import TensorShape
    from graphmill.ops.inputs.arguments import DTypeLike, ShapeLike
    from graphmill.proto import VariableDef


_VARIABLES: Final = "variables"
_TRAINABLE: Final = "trainable_variables"
VARIABLES_ADVICE: Final = (
    "Create some with graphmill.Variable, or get those of a MetaGraph with "
    "graphmill.train.import_meta_graph"
)
"""Advice to readers of errors about a graph that has no variables."""


class Variable(VariableUpdates, Tensor):
    """A variable; used as a tensor, it is the value that the step reads.

        counter = graphmill.Variable(1.0, name="counter")
        session.run(counter.initializer)
        session.run(counter.assign_add(2.0))
        print(session.run(counter))  # 3.0

    Attributes:
        handle: the resource handle, or the reference of a variable that is not a resource.
        initializer: the node that assigns the initial value.
        initial_value: the initial value, as a tensor.
        trainable: whether optimizers update it by default.
        is_resource: whether it is a resource variable.
        variable_name: its name without an output index, as in checkpoints.
        static_shape: its shape; None if it is unknown.
        constraint: the function that optimizers apply to its value after an update, or None.
    """

    __slots__ = (
        "_refined_shape",
        "constraint",
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
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: DeviceSpec = None,
        name: str | None = None,
        variable_def: VariableDef | None = None,
        dtype: DTypeLike | None = None,
        expected_shape: ShapeLike = None,
        import_scope: str | None = None,
        constraint: Callable[[Tensor], Any] | None = None,
        use_resource: bool | None = None,
        *,
        shape: ShapeLike = None,
    ) -> None:
        """Add a variable to the graph of its initial value, or to the default graph.

        Args:
            initial_value: a value or tensor, or a function without arguments that returns one.
            trainable: whether optimizers update it by default; by default they do.
            collections: the collections of the graph that it is added to, by default "variables". A
                name is accepted with a warning for one version, and an element type after it.
            validate_shape: whether its shape is that of the initial value; otherwise it is unknown.
            caching_device: the device that keeps the value that the step reads; by default that of
                the variable.
            name: its name, by default `Variable`.
            variable_def: names of its existing nodes, in place of an initial value.
            dtype: its element type, by default that of the initial value.
            expected_shape: the shape that the initial value must have.
            import_scope: the scope of the nodes that `variable_def` names.
            constraint: a function that optimizers apply to its value after an update.
            use_resource: whether it is a resource variable instead of a ref variable; by default it
                is.
            shape: its shape, by default the static shape of the initial value.

        Raises:
            InvalidArgumentError: the initial value is not a tensor, or has another shape than
                `shape` or `expected_shape`; there is none, or a `variable_def` as well.
        """
        if isinstance(collections, str):
            warn_renamed("the third argument of Variable, a name,", "name")
            name, collections = collections, None
            if not isinstance(validate_shape, bool):
                dtype, validate_shape = validate_shape, True
        self._refined_shape: TensorShape | None = None
        self.constraint = constraint
        if (initial_value is None) == (variable_def is None):
            raise InvalidValueError("a Variable needs either an initial_value or a variable_def")
        if variable_def is not None:
            self._bind(variable_def, infer_graph(), import_scope)
            return
        graph = infer_graph() if callable(initial_value) else infer_graph(initial_value)
        with (
            graph.as_default(),
            graph.control_dependencies(None),
            graph.name_scope(name or "Variable") as scope,
        ):
            self.variable_name = scope.rstrip("/")
            value = initial_value() if callable(initial_value) else initial_value
            self.initial_value = graph.convert(value, dtype, name="initial_value")
            if expected_shape is not None:
                _known_shape(self.initial_value, expected_shape)
            known = _known_shape(self.initial_value, shape)
            self.static_shape = known if validate_shape or shape is not None else None
            self.trainable = trainable is not False
            self.is_resource = use_resource is not False
            build = _resource_variable if self.is_resource else _ref_variable
            self.handle, self.initializer, read = build(self, scope, caching_device)
        super().__init__(read.op, read.value_index)
        self._collect(graph, collections)

    @classmethod
    def from_proto(
        cls,
        variable_def: VariableDef,
        import_scope: str | Graph | None = None,
        *,
        graph: Graph | None = None,
    ) -> Variable:
        """Return a variable of existing nodes of a graph; it is not added to the graph's variables.

        Args:
            variable_def: a `VariableDef` message, which names the nodes.
            import_scope: the scope of these nodes. A graph is accepted in its place.
            graph: the graph with these nodes; by default the default graph.

        Raises:
            OpError: the graph lacks a node or tensor.
        """
        if import_scope is not None and not isinstance(import_scope, str):
            import_scope, graph = None, import_scope
        with (infer_graph() if graph is None else graph).as_default():
            return cls(variable_def=variable_def, import_scope=import_scope)

    def _bind(self, definition: VariableDef, graph: Graph, scope: str | None) -> None:
        """Take the nodes of a graph that a message names."""
        prefix = f"{scope.rstrip('/')}/" if scope else ""
        self.handle = graph.get_tensor_by_name(prefix + definition.variable_name)
        self.variable_name = prefix + definition.variable_name.partition(":")[0]
        self.initializer = graph.get_operation_by_name(prefix + definition.initializer_name)
        self.is_resource = definition.is_resource
        self.trainable = definition.trainable
        shape = self.handle.op.attrs.get("shape")
        is_known = shape is not None and min(shape, default=0) >= 0
        self.static_shape = tuple(shape or ()) if is_known else None
        read = graph.get_tensor_by_name(prefix + definition.snapshot_name)
        Tensor.__init__(self, read.op, read.value_index)
        # Programs before TensorFlow 1.5 did not write the name of the initial value.
        initial = definition.initial_value_name
        self.initial_value = graph.get_tensor_by_name(prefix + initial) if initial else read

    def _collect(self, graph: Graph, collections: Sequence[str] | None) -> None:
        """Add the variable to collections of its graph; optimizers find it if it is trainable."""
        keys = list(dict.fromkeys([_VARIABLES] if collections is None else collections))
        if _VARIABLES in keys:
            graph.variables.append(self)
        elif self.trainable and _TRAINABLE not in keys:
            keys.append(_TRAINABLE)
        is_listed = _VARIABLES in keys
        for key in keys:
            if key != _VARIABLES and not (is_listed and key == _TRAINABLE):
                graph.add_to_collection(key, self)

    @property
    def shape(self) -> TensorShape:
        """Its static shape, as far as its nodes and `set_shape` determine it."""
        return Tensor.shape.fget(self) if self._refined_shape is None else self._refined_shape  # type: ignore[attr-defined]

    def set_shape(self, shape: ShapeLike | int) -> None:
        """Declare what is known about its shape beyond what its nodes determine.

        Raises:
            InvalidArgumentError: the shape contradicts its present one.
        """
        try:
            self._refined_shape = self.shape.merge_with(checked_shape(shape))
        except InvalidArgumentError as error:
            raise InvalidValueError(f"{self.name}: {error.message}") from error
        if self._refined_shape.is_fully_defined():
            self.static_shape = tuple(self._refined_shape.as_list())  # type: ignore[arg-type]

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

    def to_proto(self, export_scope: str | None = None) -> VariableDef | None:
        """Return the names of its nodes as a message; `from_proto` takes it.

        Args:
            export_scope: a scope to leave out of the names.

        Returns:
            None for a variable outside of the scope.
        """
        from graphmill.proto import VariableDef

        prefix = f"{export_scope.rstrip('/')}/" if export_scope else ""
        if not self.variable_name.startswith(prefix):
            return None
        return VariableDef(
            variable_name=self.handle.name.removeprefix(prefix),
            initial_value_name=self.initial_value.name.removeprefix(prefix),
            initializer_name=self.initializer.name.removeprefix(prefix),
            snapshot_name=output_name(self).removeprefix(prefix),
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
    return _variables(_VARIABLES, scope, graph)


def trainable_variables(
    scope: str | Graph | None = None, *, graph: Graph | None = None
) -> list[Variable]:
    """Return the variables of a graph that optimizers update by default.

    Args:
        scope: a regular expression; only variables whose names begin with it are returned. A graph
            is accepted with a warning for one version.
        graph: the graph; by default the default graph.
    """
    return _variables(_TRAINABLE, scope, graph)


def _variables(key: str, scope: str | Graph | None, graph: Graph | None) -> list[Variable]:
    """Return the variables of a collection of a graph whose names begin with a pattern."""
    if scope is not None and not isinstance(scope, str):
        caller = "global_variables" if key == _VARIABLES else key
        warn_renamed(f"the first argument, a graph, of {caller}", "graph", stacklevel=4)
        scope, graph = None, scope
    variables = (infer_graph() if graph is None else graph).get_collection(key)
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


def _resource_variable(
    variable: Variable, scope: str, caching_device: DeviceSpec
) -> tuple[Tensor, Node, Tensor]:
    name, dtype = variable.variable_name, variable.value_dtype
    handle = state.var_handle_op(
        dtype=dtype, shape=variable.static_shape, shared_name=name, name=scope
    )
    initializer = state.assign_variable_op(handle, variable.initial_value, name="Assign")
    read = state.read_variable_op(handle, dtype=dtype, name="Read/ReadVariableOp")
    if caching_device is not None:
        graph: Any = handle.graph
        with graph.colocate_with(None, ignore_existing=True), graph.device(caching_device):
            read = array.identity(read)
    return handle, initializer, read


def _ref_variable(
    variable: Variable, scope: str, caching_device: DeviceSpec
) -> tuple[Tensor, Node, Tensor]:
    ref = state.variable_v2(shape=variable.static_shape, dtype=variable.value_dtype, name=scope)
    initial = variable.initial_value
    known = variable.static_shape is not None
    assigned: Tensor = state.assign(ref, initial, validate_shape=known, name="Assign")
    if caching_device is None:
        return ref, assigned.op, array.identity(ref, name="read")
    with ref.graph.device(caching_device):
        return ref, assigned.op, array.identity(ref, name="read")
