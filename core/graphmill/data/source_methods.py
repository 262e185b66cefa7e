"""Methods of `Dataset` that return datasets of numbers and generators, or choose among several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.data.dataset import Dataset


class SourceMethods:
    """Further sources of a `Dataset`."""

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return an infinite dataset of random numbers: int64, below 2**32.

        Args:
            seed: the seed of the op; see `graphmill.get_seed`. Equal seeds give TensorFlow's
                numbers.
            rerandomize_each_iteration: whether the next pass has other numbers; by default not.
        """
        from graphmill.data import choice

        return choice.random_numbers(seed, bool(rerandomize_each_iteration)).named(name)

    @staticmethod
    def counter(
        start: Any = 0, step: Any = 1, dtype: Any = "int64", name: str | None = None
    ) -> Dataset:
        """Return an infinite dataset of numbers: `start`, `start + step` and so on.

        Raises:
            InvalidArgumentError: a number is a tensor, or not of the type.
        """
        from graphmill.data import choice

        return choice.counter(start, step, dtype, name)

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]],
        output_types: Any = None,
        output_shapes: Any = None,
        args: Sequence[Any] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of the values that a Python generator yields.

            spec = TensorSpec([], "int64")
            numbers = Dataset.from_generator(lambda: range(3), output_signature=spec)
            print([int(x) for x in numbers])  # [0, 1, 2]

        The graph refers to the generator, which exists only in this process: a saved graph cannot
        read such a dataset, and a session that forbids the effect `python` refuses it.

        Args:
            generator: returns a new iterator for each pass; it runs in threads of sessions. Each
                element fits the signature: a list or number for a tensor, a tuple, or a dict.
            output_types: the structure of the types, if there is no `output_signature`.
            output_shapes: the structure of the shapes; by default all are unknown.
            args: values and tensors, with which the generator is called, as arrays.
            output_signature: the structure of the element's `TensorSpec`s.
            name: a name for the metadata of the node.

        Raises:
            InvalidArgumentError: the generator is not a function, or the signature is missing or
                not a structure of specs.
        """
        from graphmill.data import generators

        return generators.generated(
            generator, output_types, output_shapes, args, output_signature
        ).named(name)

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Dataset], Dataset] | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Return the elements that `save` wrote.

        Args:
            path: the folder.
            element_spec: the structure of an element; by default the saved one.
            compression: as for `save`.
            reader_func: takes a dataset of the datasets of all shards, and returns one dataset; by
                default they are interleaved.
            wait: must be False; waiting for files is not supported.

        Raises:
            NotFoundError: there is no saved dataset.
            InvalidArgumentError: `reader_func` does not return a dataset of the elements, or an
                element is not made of dense tensors.
            UnimplementedError: `wait` is True.
        """
        from graphmill.data import saved

        if wait:
            raise UnimplementedError("load: wait=True is not supported; call load after save")
        return saved.load(path, element_spec, compression, reader_func)

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Take each element from a dataset that is chosen at random.

        Args:
            datasets: the datasets.
            weights: the probability of each dataset, which need not sum to 1; or a dataset of
                these. By default all are equal.
            seed: as for `random`.
            stop_on_empty_dataset: whether the result ends with the first of the datasets; else
                with the last.
            rerandomize_each_iteration: whether the next pass makes other choices; by default not.

        Raises:
            InvalidArgumentError: there is no dataset, their elements have other structures or
                types, or the weights do not fit.
        """
        from graphmill.data import choice

        return choice.sampled(
            datasets, weights, seed, stop_on_empty_dataset, bool(rerandomize_each_iteration)
        )

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Take each element from the dataset whose index another dataset gives.

        A step or loop fails with InvalidArgumentError for an index that is out of range.

        Args:
            datasets: the datasets.
            choice_dataset: a dataset of scalars, int64: indices of `datasets`.
            stop_on_empty_dataset: whether the result ends when a chosen dataset has ended;
                else that dataset is skipped.

        Raises:
            InvalidArgumentError: there is no dataset, their elements have other structures or
                types, or those of `choice_dataset` are not scalars of int64.
        """
        from graphmill.data import choice

        return choice.chosen(datasets, choice_dataset, stop_on_empty_dataset)
