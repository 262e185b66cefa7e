"""`Saver`: save the variables of a graph to checkpoints, and restore them.

Semantics: tensorflow/python/training/saver.py. The nodes, their names and the files are
TensorFlow's; TensorFlow can continue training from the `.meta` file.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from graphmill import files, proto
from graphmill.deprecations import warn_renamed
from graphmill.errors import FailedPreconditionError, InvalidArgumentError, UnimplementedError
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import VARIABLES_ADVICE
from graphmill.saved.bundle_format import index_path
from graphmill.saved.checkpoint import STATE_FILE
from graphmill.train.checkpoints.checkpoint_management import (
    checkpoint_exists,
    remove_checkpoint,
    write_state_file,
)
from graphmill.train.checkpoints.saver_nodes import SaverNodes, SaverOptions, add_saver_nodes
from graphmill.train.meta_graph_export import meta_graph_of, serialized_message
from graphmill.train.scoped_meta_graph import scoped_saver_def

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    from graphmill.graph.builder import Graph
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
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: None = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = proto.SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
        *,
        graph: Graph | None = None,
    ) -> None:
        """Add the nodes that save and restore variables to a graph.

        Args:
            var_list: the variables, or variables by their names in checkpoints; by default all
                variables of the graph.
            reshape: whether a restored value takes the shape of its variable. A number is taken as
                `max_to_keep`, and what follows as the arguments after that, with a warning for one
                version.
            sharded: whether each device writes a file of its own.
            max_to_keep: how many checkpoints to keep; 0 or None for all.
            keep_checkpoint_every_n_hours: one checkpoint in this many hours is never deleted.
            name: name of the scope of the nodes, by default `save`.
            restore_sequentially: whether variables are assigned one after the other, which takes
                less memory.
            saver_def: a `SaverDef` message that names the nodes if the graph has them already;
                the numbers of checkpoints to keep and the format are those of the message then.
            builder: not supported; None.
            defer_build: whether `build` adds the nodes later.
            allow_empty: whether there may be no variables. `save` and `restore` do nothing then.
            write_version: the format of the checkpoints: `SaverDef.V2`, or `SaverDef.V1`, in which
                a checkpoint is one file. Both are restored.
            pad_step_number: whether steps in names of files have eight digits, so that the order
                of the names is that of the steps.
            save_relative_paths: whether the state file names checkpoints relative to its folder.
            filename: the prefix of the checkpoint that the nodes write or read in a step that does
                not feed it; by default `model`.
            graph: the graph; by default that of the variables, else the default graph.

        Raises:
            InvalidArgumentError: there are no variables, or two have the same name; `saver_def` or
                `defer_build` is given with `var_list`; the format is unknown, or V1 and sharded.
            OpError: the graph lacks a node that `saver_def` names.
            UnimplementedError: `builder` is given.
        """
        if not isinstance(reshape, bool):
            warn_renamed("the second argument of Saver, a number,", "max_to_keep")
            hours: Any = sharded if sharded is not False else keep_checkpoint_every_n_hours
            name = max_to_keep if isinstance(max_to_keep, str) else name
            max_to_keep, keep_checkpoint_every_n_hours = reshape, hours
            reshape = sharded = False
        _check_sources(var_list, saver_def, builder, defer_build=defer_build)
        if saver_def is not None:
            write_version = saver_def.version or proto.SaverDef.V1  # LEGACY is V1
            max_to_keep = saver_def.max_to_keep
            sharded = saver_def.sharded
            keep_checkpoint_every_n_hours = saver_def.keep_checkpoint_every_n_hours or 10000.0
        self.write_version = _checked_version(write_version)
        self._options = SaverOptions(
            self.write_version,
            filename=filename or "model",
            reshape=reshape,
            sharded=sharded,
            restore_sequentially=restore_sequentially,
        )
        self._name = name or "save"
        self._allow_empty = allow_empty
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._max_to_keep = max_to_keep or 0
        self._hours = keep_checkpoint_every_n_hours
        self._next_to_keep = time.time() + keep_checkpoint_every_n_hours * 3600
        self._checkpoints: list[tuple[str, float]] = []
        self._graph: Any = graph
        self._nodes: SaverNodes | None = None
        self._is_built = not defer_build
        if saver_def is not None:
            self._graph = infer_graph() if graph is None else graph
            self._nodes = _existing_nodes(self._graph, saver_def)
        elif not defer_build:
            self._add_nodes(var_list)

    def build(self) -> None:
        """Add the nodes for all variables of the graph, if `defer_build` put this off.

        Raises:
            InvalidArgumentError: there are no variables, or two have the same name.
        """
        if not self._is_built:
            self._is_built = True
            self._add_nodes(None)

    def _add_nodes(self, var_list: Any) -> None:
        """Add the nodes that save and restore variables."""
        named = _named(var_list, self._graph, allow_empty=self._allow_empty)
        if not named:
            self._graph = infer_graph() if self._graph is None else self._graph
            return
        self._graph = next(iter(named.values())).graph
        graph = self._graph
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(self._name):
            self._nodes = add_saver_nodes(graph, named, self._options)

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are not deleted yet, the oldest first."""
        return [path for path, _ in self._checkpoints]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Set `last_checkpoints`, none of which is deleted, as their age is unknown."""
        self._checkpoints = [(path, math.inf) for path in last_checkpoints]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: Sequence[tuple[str, float]]
    ) -> None:
        """Set the checkpoints that may be deleted, the oldest first.

        Args:
            last_checkpoints_with_time: each checkpoint with the time when it was saved, in seconds
                since 1970.
        """
        self._checkpoints = list(last_checkpoints_with_time)

    def save(
        self,
        sess: Session,
        save_path: Path,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
    ) -> str | None:
        """Save the variables; delete the oldest checkpoint if there are too many.

        Args:
            sess: the session whose variables are saved.
            save_path: prefix of the files.
            global_step: the step to append to the prefix: an int, or a variable.
            latest_filename: name of the state file, which names the latest checkpoint.
            meta_graph_suffix: what follows the prefix and a dot in the name of the graph's file.
            write_meta_graph: whether to write the graph too, as `PREFIX.meta`.
            write_state: whether to write the state file and delete old checkpoints.
            strip_default_attrs: as for `export_meta_graph`.

        Returns:
            The prefix of the checkpoint; None if there are no variables (`allow_empty`).

        Raises:
            FailedPreconditionError, NotFoundError: a variable has no value.
            FailedPreconditionError: `build` was not called.
            InvalidArgumentError: `latest_filename` is the path of the checkpoint, or in a folder.
            OpError: the files cannot be written.
        """
        nodes = self._built()
        state_file = latest_filename or STATE_FILE
        path = self._prefix(sess, files.as_path(save_path), global_step)
        _check_state_file(state_file, path)
        if nodes is not None:
            files.make_dirs(files.parent(path) or ".")
            sess.run(nodes.save, {nodes.filename: path.encode()})
        if write_meta_graph:
            message = self.export_meta_graph(strip_default_attrs=strip_default_attrs)
            files.write(f"{path}.{meta_graph_suffix}", message.SerializeToString())
        if write_state and nodes is not None:
            self._record_checkpoint(path, state_file, meta_graph_suffix)
        return None if nodes is None else path

    def restore(self, sess: Session, save_path: Path) -> None:
        """Restore the variables from a checkpoint; they need not be initialized.

        Raises:
            FailedPreconditionError: `build` was not called.
            InvalidArgumentError: there is no checkpoint with this prefix, or a shape does not fit.
            NotFoundError: the checkpoint lacks a variable.
        """
        nodes = self._built()
        if nodes is None:
            return
        path = files.as_path(save_path)
        if not checkpoint_exists(path):
            raise InvalidArgumentError(
                f"The passed save_path is not a valid checkpoint: {path}; there is no "
                f"{index_path(path)}"
            )
        sess.run(nodes.restore, {nodes.filename: path.encode()})

    def as_saver_def(self) -> Any:
        """Return the names of the saver's nodes as a `SaverDef` message.

        Raises:
            FailedPreconditionError: `build` was not called.
        """
        nodes = self._built()
        message = proto.SaverDef(
            max_to_keep=self._max_to_keep,
            keep_checkpoint_every_n_hours=self._hours,
            sharded=self._options.sharded,
            version=self.write_version,
        )
        if nodes is not None:
            message.filename_tensor_name = nodes.filename.name
            message.save_tensor_name = nodes.save.name
            message.restore_op_name = nodes.restore.name
        return message

    def to_proto(self) -> Any:
        """Return the saver as a `SaverDef` message, as `as_saver_def` does."""
        return self.as_saver_def()

    @classmethod
    def from_proto(
        cls, saver_def: Any, import_scope: str | None = None, *, graph: Graph | None = None
    ) -> Saver:
        """Return the saver of a `SaverDef` message, whose nodes the graph has.

        Args:
            saver_def: the message.
            import_scope: the name scope into which the graph of the message was imported.
            graph: the graph; by default the default graph.

        Raises:
            OpError: the graph lacks a node that the message names.
        """
        if import_scope:
            saver_def = scoped_saver_def(saver_def, f"{import_scope.rstrip('/')}/")
        return cls(saver_def=saver_def, graph=graph)

    def export_meta_graph(
        self,
        filename: Path | None = None,
        collection_list: Collection[str] | None = None,
        as_text: bool = False,
        *,
        clear_devices: bool = False,
        strip_default_attrs: bool = False,
    ) -> Any:
        """Return the graph, its variables and the saver as a `MetaGraphDef` message.

        Args:
            filename: the file to write it to; None for none.
            collection_list: the keys of the collections that it has; by default all.
            as_text: whether the file is text.
            clear_devices: whether its nodes have no devices.
            strip_default_attrs: whether attrs with the default of their op are left out, so that a
                consumer that does not know them yet can read the graph.

        Raises:
            FailedPreconditionError: `build` was not called.
            OpError: the file cannot be written.
        """
        message = meta_graph_of(
            self._graph,
            collection_list,
            clear_devices=clear_devices,
            strip_default_attrs=strip_default_attrs,
        )
        if self._built() is not None:
            message.saver_def.CopyFrom(self.as_saver_def())
        if filename is not None:
            files.write(files.as_path(filename), serialized_message(message, as_text=as_text))
        return message

    def _built(self) -> SaverNodes | None:
        """Return the nodes; None if there are no variables."""
        if not self._is_built:
            raise FailedPreconditionError(
                "the saver has no nodes yet, as it was created with defer_build=True; "
                "call its method build() first"
            )
        return self._nodes

    def _prefix(self, sess: Session, path: str, global_step: Any) -> str:
        """Return the prefix of a new checkpoint."""
        if global_step is None:
            return path
        step = global_step if isinstance(global_step, int) else int(sess.run(global_step))
        return f"{path}-{step:08d}" if self._pad_step_number else f"{path}-{step}"

    def _record_checkpoint(self, path: str, state_file: str, meta_graph_suffix: str) -> None:
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
        write_state_file(
            path, self.last_checkpoints, state_file, relative=self._save_relative_paths
        )
        for oldest in dropped:
            remove_checkpoint(oldest, self.write_version, meta_graph_suffix)


def _named(var_list: Any, graph: Graph | None, *, allow_empty: bool) -> dict[str, Variable]:
    """Return the variables to save by their names in checkpoints, sorted by name."""
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
    if not named and not allow_empty:
        raise InvalidArgumentError(f"No variables to save. {VARIABLES_ADVICE}")
    return dict(sorted(named.items()))


def _existing_nodes(graph: Any, saver_def: Any) -> SaverNodes | None:
    """Return the nodes that a message names; None if it is that of an empty saver."""
    if not saver_def.save_tensor_name:
        return None
    return SaverNodes(
        graph.get_tensor_by_name(saver_def.filename_tensor_name),
        graph.get_tensor_by_name(saver_def.save_tensor_name),
        graph.get_operation_by_name(saver_def.restore_op_name),
    )


def _check_state_file(state_file: str, path: str) -> None:
    if "/" in state_file:
        raise InvalidArgumentError(
            f"latest_filename={state_file!r} must be a name without a folder: the state file is "
            "beside the checkpoint"
        )
    if files.join(files.parent(path), state_file) == path:
        raise InvalidArgumentError(
            f"latest_filename={state_file!r} is the path of the checkpoint, {path}; pass another "
            "save_path or latest_filename"
        )


def _check_sources(var_list: Any, saver_def: Any, builder: Any, *, defer_build: bool) -> None:
    """Check that one argument says which nodes a saver has."""
    if builder is not None:
        raise UnimplementedError(
            "graphmill.train.Saver takes no builder, as it adds the nodes itself; pass builder=None"
        )
    if var_list is not None and (saver_def is not None or defer_build):
        other = "defer_build" if saver_def is None else "saver_def"
        raise InvalidArgumentError(f"give either var_list or {other}")


def _checked_version(version: int) -> Any:
    if version not in (proto.SaverDef.V1, proto.SaverDef.V2):
        raise InvalidArgumentError(
            f"checkpoints have no format {version!r}; expected SaverDef.V1 or SaverDef.V2"
        )
    return version
