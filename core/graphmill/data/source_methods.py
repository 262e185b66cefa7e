"""Methods of `Dataset` that return datasets of numbers, and choose among several datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.data.dataset import Dataset


class SourceMethods:
    """Further sources of a `Dataset`."""

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return a dataset of random numbers without an end: int64, below 2**32.

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
        """Return a dataset of numbers without an end: `start`, `start + step` and so on.

        Raises:
            InvalidArgumentError: a number is a tensor, or not of the type.
        """
        from graphmill.data import choice

        return choice.counter(start, step, dtype, name)

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
            element_spec: the structure of an element; by default that which was saved.
            compression: as for `save`.
            reader_func: takes a dataset of the datasets of all shards, and returns one dataset; by
                default they are interleaved.
            wait: must be False; waiting for files is not supported.

        Raises:
            NotFoundError: there is no saved dataset.
            InvalidArgumentError: `reader_func` returns something else, or elements are no tensors.
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
            weights: the probability of each dataset, up to a factor; or a dataset of these. By
                default all are equal.
            seed: as for `random`.
            stop_on_empty_dataset: whether it ends when a dataset does; else when all have ended.
            rerandomize_each_iteration: whether the next pass chooses otherwise; by default not.

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
        """Take each element from the dataset whose number another dataset gives.

        A step or loop fails with InvalidArgumentError for a number that is too large.

        Args:
            datasets: the datasets.
            choice_dataset: a dataset of scalars, int64: indices of `datasets`.
            stop_on_empty_dataset: whether it ends when a chosen dataset has; else that is skipped.

        Raises:
            InvalidArgumentError: there is no dataset, their elements have other structures or
                types, or those of `choice_dataset` are no numbers.
        """
        from graphmill.data import choice

        return choice.chosen(datasets, choice_dataset, stop_on_empty_dataset)
