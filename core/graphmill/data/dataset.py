"""`Dataset`: an input pipeline of chained steps over the dataset ops, as `tf.data.Dataset`.

    rows = Dataset.from_tensor_slices((images, labels)).shuffle(1000, seed=1).batch(32)
    for images, labels in rows: ...                       # NumPy arrays, no session
    images, labels = make_one_shot_iterator(rows).get_next()   # tensors of the default graph

A dataset is a description: its nodes are added to a graph when an iterator is, or when it is
iterated over. Names, arguments and their order are those of `tf.data.Dataset`; seeds give its
order. Semantics: tensorflow/python/data/ops/dataset_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.data.components import AddedDatasets, common_graph
from graphmill.data.element_spec import DatasetSpec, pack
from graphmill.data.source_methods import SourceMethods
from graphmill.data.step_methods import StepMethods
from graphmill.deprecations import renamed_arguments
from graphmill.errors import FailedPreconditionError, InvalidArgumentError, InvalidValueError
from graphmill.proto.wire import length_delimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphmill.data.dataset_value import DatasetValue
    from graphmill.data.iterator import Iterator as GraphIterator
    from graphmill.data.options import Options
    from graphmill.graph.builder import Graph
    from graphmill.graph.tensor import Tensor

    Build = Callable[[Graph, list[Tensor]], Tensor]

AUTOTUNE: Final = -1
"""Selects a buffer size or number of calls automatically."""
INFINITE_CARDINALITY: Final = -1
UNKNOWN_CARDINALITY: Final = -2


class Dataset(SourceMethods, StepMethods):
    """A sequence of elements, each a tensor or a structure of tensors.

        from graphmill.data import Dataset

        dataset = Dataset.range(6).map(lambda x: x * x).filter(lambda x: x > 3).batch(2)
        print([batch.tolist() for batch in dataset])  # [[4, 9], [16, 25]]

    Threads: several may iterate over it at the same time.

    Attributes:
        element_spec: the structure of an element, with a `TensorSpec` for each tensor.
        graph: the graph with the tensors that it depends on; None if it depends on values only.
        inputs: the datasets that it reads.
        own_options: the options that it adds to those of its inputs; None for none.
    """

    AUTOTUNE: Final = AUTOTUNE

    def __init__(
        self,
        build: Build,
        element_spec: Any,
        inputs: Sequence[Dataset] = (),
        components: Sequence[Any] = (),
        options: Options | None = None,
    ) -> None:
        """Describe a dataset; programs call `from_tensor_slices` and similar methods.

        Args:
            build: takes a graph and the variant tensors of `inputs`; adds the nodes to the graph,
                and returns the variant tensor.
            element_spec: the structure of an element.
            inputs: the datasets that it reads.
            components: the `Component`s that it uses.
            options: the options that it adds to those of its inputs.

        Raises:
            InvalidArgumentError: inputs and components depend on several graphs.
        """
        self._build, self.inputs = build, tuple(inputs)
        self.own_options = options
        self.element_spec = element_spec
        self.graph = common_graph([*inputs, *components])
        self._value: DatasetValue | None = None

    # Sources.

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset with one element, a structure of tensors and values."""
        from graphmill.data import sources

        return sources.from_tensors(tensors).named(name)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Return a dataset of the slices of tensors along their first axis.

            pairs = Dataset.from_tensor_slices(([1, 2], [10, 20]))
            print([(int(x), int(y)) for x, y in pairs])  # [(1, 10), (2, 20)]

        Raises:
            InvalidArgumentError: one is a scalar, or their first axes differ.
        """
        from graphmill.data import sources

        return sources.from_tensor_slices(tensors).named(name)

    @staticmethod
    def range(*args: Any, output_type: Any = "int64", name: str | None = None) -> Dataset:
        """Return a dataset of numbers; the arguments are those of Python's `range`."""
        from graphmill.data import sources

        return sources.number_range(args, output_type).named(name)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Return a dataset of structures with an element of each dataset.

            pairs = Dataset.zip(Dataset.range(2), Dataset.range(5, 9))
            print([(int(a), int(b)) for a, b in pairs])  # [(0, 5), (1, 6)]

        Args:
            args: datasets; or one structure of datasets.
            datasets: one structure of datasets, instead of `args`.

        Raises:
            InvalidArgumentError: there is no dataset, or something else is among them.
        """
        from graphmill.data import sources

        if bool(args) == (datasets is not None):
            raise InvalidArgumentError("Dataset.zip takes either datasets or `datasets=`")
        structure = datasets if not args else args[0] if len(args) == 1 else args
        return sources.zipped(structure).named(name)

    @staticmethod
    def list_files(
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of the names of files that match a glob pattern, or several.

        A step or loop fails with InvalidArgumentError if no file matches.

        Args:
            file_pattern: a pattern, a list of them, or a tensor.
            shuffle: whether the order is random, as it is by default; else it is sorted.
            seed: as for `shuffle`.
        """
        from graphmill.data import files

        return files.list_files(file_pattern, shuffle is not False, seed).named(name)

    # Steps.

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the results of a function for each element.

            print([int(x) for x in Dataset.range(3).map(lambda x: x + 10)])  # [10, 11, 12]

        Args:
            map_func: takes an element (the parts of a tuple as several arguments) as tensors, and
                returns tensors, values, or a structure of these. It is called once, to trace it.
            num_parallel_calls: the number of elements that are computed at the same time; None for
                one after the other, `AUTOTUNE` for a number that is chosen for you.
            deterministic: False if parallel results may come in another order.

        Raises:
            InvalidArgumentError: the function cannot be traced.
        """
        from graphmill.data import functional

        return functional.mapped(self, map_func, num_parallel_calls, deterministic).named(name)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements for which a function (see `map`) returns True.

        Raises:
            InvalidArgumentError: it does not return a scalar bool.
        """
        from graphmill.data import functional

        return functional.filtered(self, predicate).named(name)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements before the first one for which a function returns False.

        Raises:
            InvalidArgumentError: it does not return a scalar bool.
        """
        from graphmill.data import functional

        return functional.taken_while(self, predicate).named(name)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """Return the elements of the datasets that a function (see `map`) returns.

        Raises:
            InvalidArgumentError: it does not return a dataset.
        """
        from graphmill.data import functional

        return functional.flat_mapped(self, map_func).named(name)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Interleave the elements of the datasets that a function (see `map`) returns.

            twice = Dataset.range(2).interleave(lambda x: Dataset.from_tensors(x).repeat(2), 2)
            print([int(x) for x in twice])  # [0, 1, 0, 1]

        Args:
            map_func: returns a dataset for an element.
            cycle_length: the number of datasets that are interleaved; by default the number of
                processors.
            block_length: the number of consecutive elements from one dataset, by default 1.
            num_parallel_calls, deterministic: as for `map`.

        Raises:
            InvalidArgumentError: the function does not return a dataset.
        """
        from graphmill.data import functional

        return functional.interleaved(
            self, map_func, cycle_length, block_length, num_parallel_calls, deterministic
        ).named(name)

    def shuffle(
        self,
        buffer_size: Any,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the elements in random order.

        Args:
            buffer_size: the size of the buffer from which the next element is drawn.
            seed: the seed of the op; see `graphmill.get_seed`. Equal seeds give TensorFlow's order.
            reshuffle_each_iteration: whether the next pass has another order, as by default.
        """
        from graphmill.data import steps

        return steps.shuffled(self, buffer_size, seed, reshuffle_each_iteration is not False).named(
            name
        )

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Stack consecutive elements of one shape along a new first axis.

        Args:
            batch_size: the number of elements.
            drop_remainder: whether to drop a last batch with fewer elements.
            num_parallel_calls, deterministic: as for `map`.
        """
        from graphmill.data import steps

        return steps.batched(
            self, batch_size, drop_remainder, num_parallel_calls, deterministic
        ).named(name)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack consecutive elements, padded to one shape.

            rows = Dataset.range(1, 3).map(lambda n: F.fill([n], n)).padded_batch(2)
            print(next(iter(rows)).tolist())  # [[1, 0], [2, 2]]

        Args:
            batch_size: the number of elements.
            padded_shapes: the structure of the shapes; an unknown size is that of the largest
                element of the batch. By default the shapes of the elements.
            padding_values: the structure of scalars, or one for all; by default 0, "" and False.
            drop_remainder: whether to drop a last batch with fewer elements.

        Raises:
            InvalidArgumentError: a rank is unknown, or a shape or value does not fit.
        """
        from graphmill.data import padding

        return padding.padded(
            self, batch_size, padded_shapes, padding_values, drop_remainder
        ).named(name)

    def unbatch(self, name: str | None = None) -> Dataset:
        """Split each element along its first axis.

        Raises:
            InvalidArgumentError: a part of the elements is a scalar.
        """
        from graphmill.data import steps

        return steps.unbatched(self).named(name)

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Return datasets of consecutive elements; flatten them with `flat_map`.

            windows = Dataset.range(5).window(3, shift=2, drop_remainder=True)
            rows = windows.flat_map(lambda window: window.batch(3))
            print([row.tolist() for row in rows])  # [[0, 1, 2], [2, 3, 4]]

        Args:
            size: the number of elements of a window.
            shift: the distance from window to window, by default `size`.
            stride: the distance of the elements in a window.
            drop_remainder: whether to drop last windows with fewer elements.
        """
        from graphmill.data import steps

        return steps.windows(self, size, shift, stride, drop_remainder).named(name)

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """Return the elements `count` times, or indefinitely."""
        from graphmill.data import steps

        return steps.repeated(self, count).named(name)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """Return at most the first `count` elements; all for -1."""
        from graphmill.data import steps

        return steps.counted("take", self, count).named(name)

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """Return the elements after the first `count`; none for -1."""
        from graphmill.data import steps

        return steps.counted("skip", self, count).named(name)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Return every `num_shards`-th element, beginning with that at `index`.

        Raises:
            InvalidArgumentError: the index is not below the number of shards.
        """
        from graphmill.data import steps

        return steps.sharded(self, num_shards, index).named(name)

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """Return the elements of this dataset, and then those of another one.

        Raises:
            InvalidArgumentError: the elements have other structures or types.
        """
        from graphmill.data import steps

        return steps.concatenated(self, dataset).named(name)

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Compute elements ahead, in a background thread."""
        from graphmill.data import steps

        return steps.prefetched(self, buffer_size).named(name)

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Store the elements of the first pass in memory, or in files, for the next passes."""
        from graphmill.data import steps

        return steps.cached(self, filename).named(name)

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Return pairs of an index, int64 from `start` on, and an element."""
        return Dataset.zip((Dataset.range(start, 2**63 - 1), self)).named(name)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return the result of a function that is applied to this dataset.

        Raises:
            InvalidArgumentError: it returns something else.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise InvalidArgumentError(
                f"`transformation_func` must return a Dataset, it returned {type(dataset).__name__}"
            )
        return dataset

    def named(self, name: str | None) -> Dataset:
        """Store a name in the metadata of the dataset's node, as `name=` of the methods does.

        Raises:
            InvalidArgumentError: it is not a valid identifier.
        """
        if name is None:
            return self
        build, metadata = self._build, metadata_named(name)

        def build_named(graph: Graph, inputs: list[Tensor]) -> Tensor:
            variant = build(graph, inputs)
            if variant.op.op_def.has_attr("metadata"):
                graph.set_attr(variant.op, "metadata", metadata)
            return variant

        self._build = build_named
        return self

    # Elements.

    def __iter__(self) -> Iterator[Any]:
        """Return an iterator over the elements: NumPy arrays, or structures of these.

        Raises:
            FailedPreconditionError: it depends on tensors of a graph.
            OpError: an element cannot be computed.
        """
        return self.value.elements()

    def as_numpy_iterator(self) -> Iterator[Any]:
        """Return an iterator over the elements, as `iter` does."""
        return iter(self)

    def cardinality(self) -> int:
        """Return the number of elements, `INFINITE_CARDINALITY` or `UNKNOWN_CARDINALITY`.

        Raises:
            FailedPreconditionError: it depends on tensors of a graph.
        """
        return self.value.cardinality()

    def __len__(self) -> int:
        """Return the number of elements.

        Raises:
            TypeError: it is infinite or unknown.
        """
        count = self.cardinality()
        if count < 0:
            is_infinite = count == INFINITE_CARDINALITY
            raise TypeError(f"The dataset {'is infinite' if is_infinite else 'length is unknown'}.")
        return count

    def __bool__(self) -> bool:
        return True

    def make_one_shot_iterator(self) -> GraphIterator:
        """Add an iterator to the default graph; see `graphmill.data.make_one_shot_iterator`."""
        from graphmill.data.iterator import make_one_shot_iterator

        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> GraphIterator:
        """Add an iterator; see `graphmill.data.make_initializable_iterator`."""
        from graphmill.data.iterator import make_initializable_iterator

        return make_initializable_iterator(self, shared_name)

    def __repr__(self) -> str:
        return f"<Dataset element_spec={self.element_spec}>"

    # Implementation.

    @renamed_arguments(recipe="added")
    def add_to(self, graph: Graph, added: AddedDatasets | None = None) -> Tensor:
        """Add the nodes of the dataset to a graph; return its variant tensor.

        Args:
            graph: the graph.
            added: the datasets that were added before, in the same call.

        Raises:
            InvalidArgumentError: it depends on tensors of another graph.
        """
        added = added or AddedDatasets(graph)
        tensor = added.find(self)
        if tensor is None:
            tensor = self._added(graph, added)
            added.record(self, tensor)
        return tensor

    def _added(self, graph: Graph, added: AddedDatasets) -> Tensor:
        if self._value is not None and added.values is not None:
            fed = graph.placeholder("variant", [])
            added.values[fed] = self._value
            return fed
        if self.graph is not None and self.graph is not graph:
            raise InvalidArgumentError(
                "the dataset depends on tensors of another graph, or on elements of a loop over a "
                "dataset; build it from values, or in the graph where it is used"
            )
        inputs = [dataset.add_to(graph, added) for dataset in self.inputs]
        with graph.as_default():
            return self._build(graph, inputs)

    @property
    def value(self) -> DatasetValue:
        """The dataset as a value, which is computed once.

        Raises:
            FailedPreconditionError: it depends on tensors of a graph.
            OpError: it cannot be computed.
        """
        if self._value is None:
            if self.graph is not None:
                raise FailedPreconditionError(
                    "the dataset depends on tensors of a graph, so it has elements only in a "
                    "session: use make_initializable_iterator(dataset).get_next()"
                )
            from graphmill.data.dataset_value import compute

            return compute(self)
        return self._value

    def set_value(self, value: DatasetValue) -> None:
        """Set the value, which was computed along with that of a dataset downstream."""
        self._value = value

    @classmethod
    def of_tensor(cls, tensor: Tensor, element_spec: Any) -> Dataset:
        """Return the dataset of a variant tensor."""

        def build(graph: Graph, inputs: list[Tensor]) -> Tensor:
            del graph, inputs
            return tensor

        dataset = cls(build, element_spec)
        dataset.graph = tensor.graph
        return dataset

    @classmethod
    def of_value(cls, value: DatasetValue) -> Dataset:
        """Return the dataset of a value, which is in no graph."""
        dataset = cls(_of_a_loop, value.element_spec)
        dataset.set_value(value)
        return dataset


def metadata_named(name: str | None) -> bytes:
    """Return the metadata by which the node of a dataset has a name.

    Raises:
        InvalidArgumentError: it is not a valid identifier.
    """
    if name is None:
        return b""
    if not name.isidentifier():
        raise InvalidValueError(
            f"the name {name!r} of a dataset is not a valid identifier; use letters, digits "
            "and underscores"
        )
    text = name.encode()
    return length_delimited(1, len(text)) + text


def dataset_leaves(structure: Any, what: str) -> tuple[list[Dataset], Any]:
    """Return the datasets of a structure, and the structure of their element specs.

    Raises:
        InvalidArgumentError: a leaf is not a dataset, or there is none.
    """
    from graphmill.data.element_spec import convert_leaves, flatten

    datasets: list[Dataset] = flatten(convert_leaves(structure, _checked, what))
    if not datasets:
        raise InvalidArgumentError(f"{what} holds no dataset")
    return datasets, pack(structure, [dataset.element_spec for dataset in datasets])


def _checked(value: Any) -> Dataset:
    if not isinstance(value, Dataset):
        raise InvalidArgumentError(f"expected a Dataset, got {type(value).__name__}")
    return value


def _of_a_loop(graph: Graph, inputs: list[Tensor]) -> Tensor:
    del graph, inputs
    raise InvalidArgumentError(
        "this dataset is an element of a loop over another one, so it is in no graph; iterate over "
        "it, or flatten the outer dataset with flat_map"
    )


__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "dataset_leaves",
    "metadata_named",
]
