"""The nodes with which a `Saver` saves and restores variables.

Semantics: `BaseSaverBuilder` in tensorflow/python/training/saver.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.errors import InvalidArgumentError
from graphmill.graph.dependencies import group, with_dependencies
from graphmill.graph.device_name import parse_device_name
from graphmill.ops import array, io, state, string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.graph.variable import Variable

    Variables = Mapping[str, Variable]

_TEMPORARY_SUFFIX: Final = b"_temp/part"
"""The suffix of a checkpoint's prefix while its shards are not merged."""


@dataclass(frozen=True)
class SaverOptions:
    """The options of a saver's nodes.

    Attributes:
        write_version: the format of the checkpoints, a `SaverDef.CheckpointFormatVersion`.
        filename: the prefix of a checkpoint if a step does not feed it.
        reshape: whether a restored value takes the shape of its variable.
        sharded: whether the variables of each device are saved there, to a file of their own.
        restore_sequentially: whether variables are assigned one after the other.
    """

    write_version: Any
    filename: str = "model"
    reshape: bool = False
    sharded: bool = False
    restore_sequentially: bool = False

    def __post_init__(self) -> None:
        """Check that the format has shards.

        Raises:
            InvalidArgumentError: it has none.
        """
        if self.sharded and self.write_version != proto.SaverDef.V2:
            raise InvalidArgumentError(
                "a checkpoint of the format V1 cannot be sharded; pass write_version=SaverDef.V2"
            )


@dataclass(frozen=True)
class SaverNodes:
    """The nodes of a saver.

    Attributes:
        filename: the prefix of the checkpoint, which a step feeds.
        save: writes the checkpoint, and returns its prefix.
        restore: assigns the values of the checkpoint to the variables.
    """

    filename: Tensor
    save: Tensor
    restore: Node


def add_saver_nodes(graph: Any, variables: Variables, options: SaverOptions) -> SaverNodes:
    """Add the nodes that save and restore variables, in the current scope.

    Args:
        graph: the graph of the variables.
        variables: the variables by their names in the checkpoint.
        options: what the nodes do.
    """
    filename = array.placeholder_with_default(
        graph.constant(options.filename.encode(), name="filename/input"), shape=(), name="filename"
    )
    filename = array.placeholder_with_default(filename, shape=(), name="Const")
    if not options.sharded:
        saved = _save(graph, filename, variables, options.write_version)
        done = with_dependencies([saved], filename, name="control_dependency")
        restored = _restore(graph, filename, variables, options)
        return SaverNodes(filename, done, group(*restored, name="restore_all"))
    shards = _by_device(variables)
    done = _save_sharded(graph, filename, shards, options.write_version)
    restored = []
    for device, shard in shards.items():
        with graph.device(device):
            restored.append(group(*_restore(graph, filename, shard, options), name="restore_shard"))
    return SaverNodes(filename, done, group(*restored, name="restore_all"))


def _save(graph: Any, prefix: Tensor, variables: Variables, write_version: int) -> Node:
    names, slices = list(variables), [""] * len(variables)
    name = "SaveV2" if write_version == proto.SaverDef.V2 else "save"
    with graph.name_scope(name):
        values = [variable.read_value() for variable in variables.values()]
    save = io.save_v2 if write_version == proto.SaverDef.V2 else io.save_slices
    return save(prefix, names, slices, values, name=name)


def _save_sharded(
    graph: Any, prefix: Tensor, shards: Mapping[str, Variables], write_version: int
) -> Tensor:
    """Save the variables of each device to a checkpoint, and merge these."""
    parts, saves = [], []
    with graph.device("/cpu:0"):
        temporary = string.string_join([prefix, graph.constant(_TEMPORARY_SUFFIX)])
    count = graph.constant(len(shards), "int32", name="num_shards")
    for index, (device, shard) in enumerate(shards.items()):
        with graph.device(device):
            part = io.sharded_filename(
                temporary, graph.constant(index, "int32", name="ShardedFilename/shard"), count
            )
            saves.append(_save(graph, part, shard, write_version))
        parts.append(part)
    with graph.device(device), graph.control_dependencies(saves):
        merged = io.merge_v2_checkpoints(array.pack(parts), prefix, delete_old_dirs=True)
        return with_dependencies([merged], prefix)


def _restore(graph: Any, prefix: Tensor, variables: Variables, options: SaverOptions) -> list[Node]:
    dtypes = [variable.value_dtype for variable in variables.values()]
    values = io.restore_v2(
        prefix, list(variables), [""] * len(variables), dtypes=dtypes, name="RestoreV2"
    )
    assigned: list[Node] = []
    for variable, value in zip(variables.values(), values, strict=True):
        before = assigned[-1:] if options.restore_sequentially else []
        with graph.control_dependencies(before):
            assigned.append(_assign(variable, value, reshape=options.reshape))
    return assigned


def _assign(variable: Variable, value: Tensor, *, reshape: bool) -> Node:
    shape = variable.static_shape
    if reshape:
        is_known = shape is not None and None not in shape
        target: Any = shape if is_known else array.shape(variable.read_value())
        value = array.reshape(value, target)
    validate_shape = shape is not None
    if variable.is_resource:
        value = array.identity(value)
        node: Node = state.assign_variable_op(variable.handle, value, validate_shape=validate_shape)
        return node
    return state.assign(variable.handle, value, validate_shape=validate_shape, name="Assign").op


def _by_device(variables: Variables) -> dict[str, Variables]:
    """Return the variables by the CPU of the task that holds them, in the order of their names."""
    on_cpu = {name: _cpu_of(variable.handle.op.device) for name, variable in variables.items()}
    names = sorted(variables, key=lambda name: (on_cpu[name], name))
    return {
        device: {name: variables[name] for name in shard}
        for device, shard in groupby(names, key=on_cpu.__getitem__)
    }


def _cpu_of(device: str) -> str:
    """Return the name of the CPU of a device's task: files are written there."""
    return str(parse_device_name(device)._replace(type="CPU", id=0))
