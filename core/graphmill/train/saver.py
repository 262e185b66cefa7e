"""`Saver`: save the variables of a graph to checkpoints, and restore them.

Semantics: tensorflow/python/training/saver.py, checkpoint_management.py. The nodes, their names
and the files are TensorFlow's; TensorFlow can continue training from the `.meta` file.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from graphmill import errors, files, proto
from graphmill.deprecations import renamed_arguments
from graphmill.errors import InvalidArgumentError
from graphmill.graph.dependencies import group, with_dependencies
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import VARIABLES_ADVICE
from graphmill.ops import array, io, state
from graphmill.saved.bundle_format import index_path
from graphmill.saved.checkpoint import STATE_FILE, read_state

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.graph.variable import Variable
    from graphmill.session.session import Session

    Path = str | os.PathLike[str]


class Saver:
    """Saves and restores variables.

        w = graphmill.Variable(1.0, name="w")
        saver = graphmill.train.Saver(max_to_keep=3)
        session.run(w.initializer)
        path = saver.save(session, "run/model", global_step=10)
        session.run(w.assign(5.0))
        saver.restore(session, path)
        print(path, session.run(w))  # run/model-10 1.0

    Attributes:
        last_checkpoints: the checkpoints that are not deleted yet, the oldest first.
        write_version: the format of the checkpoints, a `SaverDef.CheckpointFormatVersion`.
    """

    def __init__(
        self,
        var_list: Sequence[Variable] | Mapping[str, Variable] | None = None,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str = "save",
        *,
        graph: Graph | None = None,
        saver_def: Any = None,
        write_version: int = proto.SaverDef.V2,
    ) -> None:
        """Add the nodes that save and restore variables to a graph.

        Args:
            var_list: the variables, or variables by their names in checkpoints; by default all
                variables of the graph.
            max_to_keep: how many checkpoints to keep; 0 or None for all.
            keep_checkpoint_every_n_hours: one checkpoint in this many hours is never deleted.
            name: name of the scope of the nodes.
            graph: the graph; by default that of the variables, else the default graph.
            saver_def: a `SaverDef` message that names the nodes if the graph has them already;
                the numbers of checkpoints to keep and the format are those of the message then.
            write_version: the format of the checkpoints: `SaverDef.V2`, or `SaverDef.V1`, in which
                a checkpoint is one file. Both are restored.

        Raises:
            InvalidArgumentError: there are no variables, or two have the same name; both
                `var_list` and `saver_def` are given; or the format is unknown.
            OpError: the graph lacks a node that `saver_def` names.
        """
        if saver_def is not None:
            if var_list is not None:
                raise InvalidArgumentError("give either var_list or saver_def")
            write_version = saver_def.version or proto.SaverDef.V1  # LEGACY is V1
            max_to_keep = saver_def.max_to_keep
            keep_checkpoint_every_n_hours = saver_def.keep_checkpoint_every_n_hours or 10000.0
        self.write_version = _checked_version(write_version)
        named = _named(var_list, graph) if saver_def is None else {}
        own = graph if saver_def is None else (infer_graph() if graph is None else graph)
        self._graph: Any = next(iter(named.values())).graph if named else own
        self._max_to_keep = max_to_keep or 0
        self._hours = keep_checkpoint_every_n_hours
        self._next_to_keep = time.time() + keep_checkpoint_every_n_hours * 3600
        self._checkpoints: list[tuple[str, float]] = []
        target: Any = self._graph
        if saver_def is not None:
            self._filename = target.get_tensor_by_name(saver_def.filename_tensor_name)
            self._save = target.get_tensor_by_name(saver_def.save_tensor_name)
            self._restore = target.get_operation_by_name(saver_def.restore_op_name)
            return
        with target.as_default(), target.control_dependencies(None), target.name_scope(name):
            self._filename, self._save, self._restore = _add_nodes(
                target, named, self.write_version
            )

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are not deleted yet, the oldest first."""
        return [path for path, _ in self._checkpoints]

    def save(
        self,
        sess: Session,
        save_path: Path,
        global_step: Any = None,
        latest_filename: str | None = None,
        *,
        write_meta_graph: bool = True,
        write_state: bool = True,
    ) -> str:
        """Save the variables; delete the oldest checkpoint if there are too many.

        Args:
            sess: the session whose variables are saved.
            save_path: prefix of the files.
            global_step: the step to append to the prefix: an int, or a variable.
            latest_filename: name of the state file, which names the latest checkpoint.
            write_meta_graph: whether to write the graph too, as `PREFIX.meta`.
            write_state: whether to write the state file and delete old checkpoints.

        Returns:
            The prefix of the checkpoint.

        Raises:
            FailedPreconditionError, NotFoundError: a variable has no value.
            OpError: the files cannot be written.
        """
        path = files.as_path(save_path)
        if global_step is not None:
            step = global_step if isinstance(global_step, int) else int(sess.run(global_step))
            path = f"{path}-{step}"
        files.make_dirs(files.parent(path) or ".")
        sess.run(self._save, {self._filename: path.encode()})
        if write_meta_graph:
            files.write(f"{path}.meta", self.export_meta_graph().SerializeToString())
        if write_state:
            self._record_checkpoint(path, latest_filename or STATE_FILE)
        return path

    def restore(self, sess: Session, save_path: Path) -> None:
        """Restore the variables from a checkpoint; they need not be initialized.

        Raises:
            InvalidArgumentError: there is no checkpoint with this prefix, or a shape does not fit.
            NotFoundError: the checkpoint lacks a variable.
        """
        path = files.as_path(save_path)
        if not files.exists(index_path(path)) and not files.exists(path):
            raise InvalidArgumentError(
                f"The passed save_path is not a valid checkpoint: {path}; there is no "
                f"{index_path(path)}"
            )
        sess.run(self._restore, {self._filename: path.encode()})

    def as_saver_def(self) -> Any:
        """Return the names of the saver's nodes as a `SaverDef` message."""
        return proto.SaverDef(
            filename_tensor_name=self._filename.name,
            save_tensor_name=self._save.name,
            restore_op_name=self._restore.name,
            max_to_keep=self._max_to_keep,
            keep_checkpoint_every_n_hours=self._hours,
            version=self.write_version,
        )

    def to_proto(self) -> Any:
        """Return the saver as a `SaverDef` message, as `as_saver_def` does."""
        return self.as_saver_def()

    @classmethod
    def from_proto(cls, saver_def: Any, *, graph: Graph | None = None) -> Saver:
        """Return the saver of a `SaverDef` message, whose nodes the graph has."""
        return cls(saver_def=saver_def, graph=graph)

    def export_meta_graph(self, filename: Path | None = None, *, as_text: bool = False) -> Any:
        """Return the graph, its variables and the saver as a `MetaGraphDef` message.

        Args:
            filename: the file to write it to; None for none.
            as_text: whether the file is text.

        Raises:
            OpError: the file cannot be written.
        """
        message = meta_graph_of(self._graph)
        message.saver_def.CopyFrom(self.as_saver_def())
        if filename is not None:
            files.write(files.as_path(filename), serialized_message(message, as_text=as_text))
        return message

    def _record_checkpoint(self, path: str, latest_filename: str) -> None:
        """Write the checkpoint state file and delete old checkpoints."""
        self._checkpoints = [entry for entry in self._checkpoints if entry[0] != path]
        self._checkpoints.append((path, time.time()))
        dropped = []
        if self._max_to_keep:
            while len(self._checkpoints) > self._max_to_keep:
                oldest, saved = self._checkpoints.pop(0)
                if saved > self._next_to_keep:
                    self._next_to_keep += self._hours * 3600
                else:
                    dropped.append(oldest)
        _write_state(path, self._checkpoints, latest_filename)
        for oldest in dropped:
            _remove(oldest, self.write_version)


@renamed_arguments(folder="checkpoint_dir")
def get_checkpoint_state(checkpoint_dir: Path, latest_filename: str | None = None) -> Any:
    """Return the `CheckpointState` of a folder with full paths, or None if it has none.

    Raises:
        DataLossError: the file is damaged.
    """
    base = files.as_path(checkpoint_dir)
    message = read_state(files.join(base, latest_filename or STATE_FILE))
    if message is None:
        return None
    message.model_checkpoint_path = files.join(base, message.model_checkpoint_path)
    paths = [files.join(base, path) for path in message.all_model_checkpoint_paths]
    del message.all_model_checkpoint_paths[:]
    message.all_model_checkpoint_paths.extend(paths)
    return message


def serialized_message(message: Any, *, as_text: bool) -> bytes:
    """Return the content of a file with a message."""
    if not as_text:
        content: bytes = message.SerializeToString()
        return content
    from google.protobuf import text_format

    return text_format.MessageToString(message).encode()


def meta_graph_of(graph: Any) -> Any:
    """Return a graph and its variables as a `MetaGraphDef` message."""
    message = proto.MetaGraphDef(graph_def=graph.as_graph_def())
    for op in sorted({node.op for node in graph.nodes}):
        if op in graph.ops:
            message.meta_info_def.stripped_op_list.op.append(graph.ops.get(op).to_proto())
    for variable in graph.variables:
        content = variable.to_proto().SerializeToString()
        message.collection_def["variables"].bytes_list.value.append(content)
        if variable.trainable:
            message.collection_def["trainable_variables"].bytes_list.value.append(content)
    for runner in graph.queue_runners:
        content = runner.to_proto().SerializeToString()
        message.collection_def["queue_runners"].bytes_list.value.append(content)
    lists = {**graph.collections, **({"summaries": graph.summaries} if graph.summaries else {})}
    for key, values in lists.items():
        _add_collection(message.collection_def[key], key, values)
    return message


def _add_collection(collection: Any, key: str, values: Sequence[Any]) -> None:
    """Write the values of a collection, which have one kind."""
    for value in values:
        if hasattr(value, "initializer"):
            collection.bytes_list.value.append(value.to_proto().SerializeToString())
        elif isinstance(value, bytes):
            collection.bytes_list.value.append(value)
        elif isinstance(value, bool | int):
            collection.int64_list.value.append(value)
        elif isinstance(value, float):
            collection.float_list.value.append(value)
        elif hasattr(value, "name"):
            collection.node_list.value.append(value.name)
        elif hasattr(value, "TypeName"):
            collection.any_list.value.append(value)
        else:
            raise InvalidArgumentError(
                f"collection {key!r} has a {type(value).__name__}, which a MetaGraph cannot hold"
            )


def _named(var_list: Any, graph: Graph | None) -> dict[str, Variable]:
    if var_list is None:
        var_list = (infer_graph() if graph is None else graph).variables
    if hasattr(var_list, "items"):
        named = dict(var_list)
    else:
        named = {}
        for variable in var_list:
            if variable.variable_name in named:
                raise InvalidArgumentError(
                    f"two variables are named {variable.variable_name!r}; "
                    "pass a dict with unique names"
                )
            named[variable.variable_name] = variable
    if not named:
        raise InvalidArgumentError(f"No variables to save. {VARIABLES_ADVICE}")
    return dict(sorted(named.items()))


def _checked_version(version: int) -> Any:
    if version not in (proto.SaverDef.V1, proto.SaverDef.V2):
        raise InvalidArgumentError(
            f"checkpoints have no format {version!r}; expected SaverDef.V1 or SaverDef.V2"
        )
    return version


def _add_nodes(
    graph: Any, named: dict[str, Variable], write_version: int
) -> tuple[Tensor, Tensor, Node]:
    filename = array.placeholder_with_default(
        graph.constant(b"model", name="filename/input"), shape=(), name="filename"
    )
    filename = array.placeholder_with_default(filename, shape=(), name="Const")
    names, slices = list(named), [""] * len(named)
    name = "SaveV2" if write_version == proto.SaverDef.V2 else "save"
    with graph.name_scope(name):
        values = [variable.read_value() for variable in named.values()]
    if write_version == proto.SaverDef.V2:
        saved = io.save_v2(filename, names, slices, values, name=name)
    else:
        saved = io.save_slices(filename, names, slices, values, name=name)
    done = with_dependencies([saved], filename, name="control_dependency")
    dtypes = [variable.value_dtype for variable in named.values()]
    restored = io.restore_v2(filename, names, slices, dtypes=dtypes, name="RestoreV2")
    assigned = [
        _assign(variable, value) for variable, value in zip(named.values(), restored, strict=True)
    ]
    return filename, done, group(*assigned, name="restore_all")


def _assign(variable: Variable, value: Tensor) -> Node:
    if variable.is_resource:
        node: Node = state.assign_variable_op(
            variable.handle,
            array.identity(value),
            validate_shape=variable.static_shape is not None,
        )
        return node
    has_shape = variable.static_shape is not None
    return state.assign(variable.handle, value, validate_shape=has_shape, name="Assign").op


def _write_state(path: str, checkpoints: list[tuple[str, float]], latest_filename: str) -> None:
    from google.protobuf import text_format

    folder = files.parent(path)

    def spelled(prefix: str) -> str:
        is_beside = folder and files.parent(prefix) == folder
        is_absolute = prefix.startswith("/") or files.is_url(prefix)
        return prefix[len(folder) :].lstrip("/") if is_beside and not is_absolute else prefix

    message = proto.CheckpointState(
        model_checkpoint_path=spelled(path),
        all_model_checkpoint_paths=[spelled(prefix) for prefix, _ in checkpoints],
    )
    text = text_format.MessageToString(message)
    files.write(files.join(folder, latest_filename), text.encode())


def _remove(prefix: str, write_version: int) -> None:
    """Delete the files of a checkpoint that exist."""
    if write_version == proto.SaverDef.V2:
        checkpoint = [index_path(prefix), *files.matching(f"{prefix}.data-?????-of-?????")]
    else:
        checkpoint = [prefix]
    for path in (*checkpoint, f"{prefix}.meta"):
        try:
            files.remove(path)
        except errors.NotFoundError:
            continue
