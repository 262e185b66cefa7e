"""`Options` of a dataset: hints about how to compute it, as `tf.data.Options`.

    options = Options()
    options.threading.private_threadpool_size = 4
    dataset = dataset.with_options(options)

They are stored in the graph, from which TensorFlow reads them. They do not change elements.
Semantics: tensorflow/core/framework/dataset_options.proto, tensorflow/python/data/ops/options.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphmill.data.dataset import Dataset
from graphmill.data.element_spec import output_attrs
from graphmill.errors import InvalidValueError, suggest
from graphmill.ops import dataset as ops
from graphmill.proto.wire import length_delimited, write_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor


class _Group:
    """Options with checked names and types; an option that was not set is None."""

    FIELDS: ClassVar[Mapping[str, tuple[int, type]]]
    """The number of each option in its message, and its type: bool, int, str or a group."""

    def __init__(self) -> None:
        for name, (_, kind) in self.FIELDS.items():
            is_group = issubclass(kind, _Group)
            object.__setattr__(self, name, kind() if is_group else None)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(
                f"{type(self).__name__} has no option {name!r}{suggest(name, self.FIELDS)}"
            )
        kind = self.FIELDS[name][1]
        if type(value) is not kind:
            raise InvalidValueError(
                f"the option {name} must be {kind.__name__}, got {type(value).__name__}: {value!r}"
            )
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = (f"{name}={value!r}" for name, value in self.given())
        return f"{type(self).__name__}({', '.join(parts)})"

    def merged_with(self, other: Self) -> Self:
        """Return the options of both; those of `other` take precedence."""
        result = type(self)()
        for name, value in [*self.given(), *other.given()]:
            earlier = getattr(result, name)
            merged = earlier.merged_with(value) if isinstance(value, _Group) else value
            object.__setattr__(result, name, merged)
        return result

    def serialized(self) -> bytes:
        """Return the options that are set as a message."""
        return b"".join(_field(self.FIELDS[name][0], value) for name, value in self.given())

    def given(self) -> list[tuple[str, Any]]:
        """Return the names and values of the options that are set."""
        values = ((name, getattr(self, name)) for name in self.FIELDS)
        return [
            (name, value)
            for name, value in values
            if value is not None and not (isinstance(value, _Group) and not value.given())
        ]


def _field(number: int, value: Any) -> bytes:
    """Return an option as a field of a message."""
    if isinstance(value, int):
        return write_varint(number << 3) + write_varint(value % 2**64)
    content = value.serialized() if isinstance(value, _Group) else value.encode()
    return length_delimited(number, len(content)) + content


class AutotuneOptions(_Group):
    """Limits of the numbers that are chosen for `AUTOTUNE`."""

    FIELDS: ClassVar = {
        "enabled": (1, bool),
        "cpu_budget": (2, int),
        "ram_budget": (3, int),
        "autotune_algorithm": (4, int),
        "initial_parallelism": (5, int),
        "min_parallelism": (6, int),
    }


class DistributeOptions(_Group):
    """How elements are divided among workers."""

    FIELDS: ClassVar = {"auto_shard_policy": (1, int), "num_devices": (2, int)}


class OptimizationOptions(_Group):
    """Which rewrites of the pipeline are applied."""

    FIELDS: ClassVar = {
        "apply_default_optimizations": (1, bool),
        "filter_fusion": (6, bool),
        "map_and_batch_fusion": (9, bool),
        "map_and_filter_fusion": (10, bool),
        "map_fusion": (11, bool),
        "map_parallelization": (12, bool),
        "noop_elimination": (14, bool),
        "parallel_batch": (15, bool),
        "shuffle_and_repeat_fusion": (17, bool),
        "filter_parallelization": (18, bool),
        "inject_prefetch": (19, bool),
        "seq_interleave_prefetch": (21, bool),
    }


class ThreadingOptions(_Group):
    """The numbers of threads that compute elements."""

    FIELDS: ClassVar = {"max_intra_op_parallelism": (1, int), "private_threadpool_size": (2, int)}


class Options(_Group):
    """Hints about how to compute a dataset; None for those that were not set.

    Attributes:
        deterministic: whether parallel steps keep the order of elements.
        autotune: `AutotuneOptions`.
        threading: `ThreadingOptions`.
        experimental_distribute: `DistributeOptions`.
        experimental_optimization: `OptimizationOptions`.
        experimental_slack, experimental_symbolic_checkpoint, experimental_warm_start: bools.
        experimental_external_state_policy: an int.
        dataset_name: a string.
    """

    FIELDS: ClassVar = {
        "deterministic": (1, bool),
        "experimental_distribute": (2, DistributeOptions),
        "experimental_optimization": (3, OptimizationOptions),
        "experimental_slack": (4, bool),
        "threading": (5, ThreadingOptions),
        "experimental_external_state_policy": (6, int),
        "autotune": (7, AutotuneOptions),
        "experimental_symbolic_checkpoint": (8, bool),
        "experimental_warm_start": (9, bool),
        "dataset_name": (10, str),
    }


def with_options(source: Dataset, options: Any) -> Dataset:
    """Return a dataset with options; see `Dataset.with_options`."""
    if not isinstance(options, Options):
        raise InvalidValueError(
            "with_options: expected graphmill.data.Options, got " + type(options).__name__
        )
    own = Options().merged_with(options)  # a copy: the caller may change theirs
    attrs = output_attrs(source.element_spec)

    def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
        del graph
        return ops.options_dataset(inputs[0], serialized_options=own.serialized(), **attrs)

    return Dataset(build, source.element_spec, [source], options=own)


def options_of(dataset: Dataset) -> Options:
    """Return the options of a dataset; see `Dataset.options`."""
    result = Options()
    for source in dataset.inputs:
        result = result.merged_with(options_of(source))
    return result if dataset.own_options is None else result.merged_with(dataset.own_options)
