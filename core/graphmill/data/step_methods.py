"""Methods of `Dataset` with a state over its elements, and those that group or check elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.data.dataset import Dataset
    from graphmill.data.options import Options


class StepMethods:
    """Further transformations of a `Dataset`, and functions that compute results from it."""

    # Results.

    def reduce(
        self: Any, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """Return the last state of a function that is called for each element.

            total = Dataset.range(5).reduce(np.int64(0), lambda state, x: state + x)
            print(session.run(total))  # 10

        The result is an array or a structure of these. In a graph, or if the dataset depends on
        one, it is a tensor or a structure of these.

        Args:
            initial_state: the first state, a structure of tensors and values.
            reduce_func: takes a state and an element, and returns the next state.

        Raises:
            InvalidArgumentError: the function cannot be traced, or its states have another
                structure or other types than the first.
            OpError: an element cannot be computed.
        """
        from graphmill.data import folds

        return folds.reduced(self, initial_state, reduce_func, name)

    def get_single_element(self: Any, name: str | None = None) -> Any:
        """Return the only element; in a graph it is a tensor or a structure of these.

        Raises:
            InvalidArgumentError: there is none, or more than one; in a graph the step fails.
        """
        from graphmill.data import folds

        return folds.single_element(self, name)

    def save(
        self: Any,
        path: Any,
        compression: str | None = None,
        shard_func: Callable[..., Any] | None = None,
        checkpoint_args: Any = None,
    ) -> Any:
        """Write the elements to files, which `load` reads, also in TensorFlow.

        In a graph, or if the dataset depends on one, it returns a node that writes them.

        Args:
            path: a folder, which is created if it does not exist.
            compression: None, "GZIP" or "SNAPPY".
            shard_func: returns the number of the file for an element (see `map`), a scalar int64;
                by default there is one file.
            checkpoint_args: must be None; checkpoints while saving are not supported.

        Raises:
            InvalidArgumentError: `shard_func` returns something else, or elements are datasets.
            UnimplementedError: `checkpoint_args` is given.
            OpError: an element cannot be computed, or a file cannot be written.
        """
        from graphmill.data import saved

        if checkpoint_args is not None:
            raise UnimplementedError(
                "save: checkpoint_args is not supported; save parts of it one by one"
            )
        return saved.save(self, path, compression, shard_func)

    def options(self: Any) -> Options:
        """Return the hints of `with_options`, of this step and of those before it."""
        from graphmill.data import options

        return options.options_of(self)

    # Steps.

    def snapshot(
        self: Any,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Callable[[Dataset], Dataset] | None = None,
        shard_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Write the elements to files in the first pass, and read them in the next ones.

        Args:
            path: a folder.
            compression: None, "GZIP" or "SNAPPY", which "AUTO" chooses.
            reader_func: as for `load`.
            shard_func: as for `save`; by default as many files as processors.

        Raises:
            InvalidArgumentError: a function returns something else.
        """
        from graphmill.data import saved

        return saved.snapshot(self, path, compression, reader_func, shard_func).named(name)

    def scan(
        self: Any, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Dataset:
        """Return the results of a function with a state, for each element.

            sums = Dataset.range(4).scan(np.int64(0), lambda total, x: (total + x, total + x))
            print([int(x) for x in sums])  # [0, 1, 3, 6]

        Args:
            initial_state: the first state, a structure of tensors and values.
            scan_func: takes a state and an element, and returns a pair of the next state and a
                result.

        Raises:
            InvalidArgumentError: the function cannot be traced or does not return a pair, or its
                states have another structure or other types than the first.
        """
        from graphmill.data import folds

        return folds.scanned(self, initial_state, scan_func).named(name)

    def unique(self: Any, name: str | None = None) -> Dataset:
        """Return each of the distinct elements once, in order of appearance.

        Raises:
            InvalidArgumentError: the elements are not one tensor, int32, int64 or string.
        """
        from graphmill.data import steps

        return steps.distinct(self).named(name)

    def group_by_window(
        self: Any,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: Any = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Group elements by a key, and reduce each group to a dataset, whose elements are returned.

        Args:
            key_func: returns the key of an element, a scalar int64.
            reduce_func: takes a key and a dataset of consecutive elements with it; returns a
                dataset.
            window_size: the largest number of elements for one call of `reduce_func`.
            window_size_func: returns that for a key, instead of `window_size`.

        Raises:
            InvalidArgumentError: a function cannot be traced or returns something else, or not
                exactly one of `window_size` and `window_size_func` is given.
        """
        from graphmill.data import grouping

        return grouping.grouped(self, key_func, reduce_func, window_size, window_size_func).named(
            name
        )

    def bucket_by_sequence_length(
        self: Any,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Batch elements of similar lengths.

            rows = [[1], [2, 2, 2], [3], [4, 4, 4]]
            spec = TensorSpec([None], "int64")
            texts = Dataset.from_generator(lambda: rows, output_signature=spec)
            batches = texts.bucket_by_sequence_length(lambda row: F.size(row), [2], [2, 2])
            print([batch.shape for batch in batches])  # [(2, 1), (2, 3)]

        Args:
            element_length_func: returns the length of an element, a scalar.
            bucket_boundaries: the lengths at which the next bucket begins, in ascending order.
            bucket_batch_sizes: the batch size of each bucket; there is one bucket more than
                boundaries.
            padded_shapes, padding_values: as for `padded_batch`.
            pad_to_bucket_boundary: whether unknown sizes are padded to the longest of the bucket,
                not of the batch; a step or loop then fails for elements of the last bucket.
            no_padding: whether the elements of a batch have one shape, so that none is padded.
            drop_remainder: whether to drop last batches with fewer elements.

        Raises:
            InvalidArgumentError: the function cannot be traced, or the boundaries, batch sizes or
                shapes do not fit.
        """
        from graphmill.data import grouping

        return grouping.bucketed(
            self,
            element_length_func,
            bucket_boundaries,
            bucket_batch_sizes,
            padded_shapes,
            padding_values,
            pad_to_bucket_boundary=pad_to_bucket_boundary,
            no_padding=no_padding,
            drop_remainder=drop_remainder,
        ).named(name)

    def ragged_batch(
        self: Any,
        batch_size: Any,
        drop_remainder: Any = False,
        row_splits_dtype: Any = "int64",
        name: str | None = None,
    ) -> Dataset:
        """Batch elements of different shapes; tensors with unknown sizes become `RaggedTensor`s.

        Args:
            batch_size: the number of elements.
            drop_remainder: whether to drop a last batch with fewer elements.
            row_splits_dtype: the type of the row splits, int32 or int64.

        Raises:
            InvalidArgumentError: the batch size is not positive, or the type is another one.
        """
        from graphmill.data import composite

        return composite.ragged_batches(self, batch_size, drop_remainder, row_splits_dtype).named(
            name
        )

    def sparse_batch(
        self: Any, batch_size: Any, row_shape: Any, name: str | None = None
    ) -> Dataset:
        """Batch elements of different shapes as a `SparseTensor`.

        A step or loop fails with DataLossError for an element that is larger than `row_shape`.

        Args:
            batch_size: the number of elements.
            row_shape: the shape of a row of the result; None for the largest size of the batch.

        Raises:
            InvalidArgumentError: elements are not one tensor, or have another rank.
        """
        from graphmill.data import composite

        return composite.sparse_batches(self, batch_size, row_shape).named(name)

    def with_options(self: Any, options: Options, name: str | None = None) -> Dataset:
        """Add hints about how to compute the elements, which do not change them.

        Args:
            options: the `graphmill.data.Options`; those of earlier steps hold where it sets none.

        Raises:
            InvalidArgumentError: it is something else.
        """
        from graphmill.data import options as steps

        return steps.with_options(self, options).named(name)

    def rejection_resample(
        self: Any,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Reject and repeat elements, so that the classes get another distribution.

        Args:
            class_func: returns the class of an element, a scalar int32 from 0 on.
            target_dist: the probability of each class in the result.
            initial_dist: the probability of each class in this dataset; by default it is estimated
                from the elements so far.
            seed: the seed of the ops; see `graphmill.get_seed`. Equal seeds give TensorFlow's
                choice.

        Returns:
            A dataset of pairs of class and element.

        Raises:
            InvalidArgumentError: the function cannot be traced, or a distribution is not a vector
                of numbers.
        """
        from graphmill.data import resampling

        return resampling.resampled(self, class_func, target_dist, initial_dist, seed).named(name)

    def rebatch(
        self: Any, batch_size: Any, drop_remainder: Any = False, name: str | None = None
    ) -> Dataset:
        """Regroup batches into batches of another size.

        Args:
            batch_size: the number of elements; or several, for one batch after the other. A batch
                of size 0 is empty.
            drop_remainder: whether to drop a last batch with fewer elements.

        Raises:
            InvalidArgumentError: the elements are not batches, or a size is negative.
        """
        from graphmill.data import steps

        return steps.rebatched(self, batch_size, drop_remainder).named(name)

    def ignore_errors(self: Any, log_warning: bool = False, name: str | None = None) -> Dataset:
        """Skip elements that cannot be computed.

        Args:
            log_warning: whether to log each of their errors.
        """
        from graphmill.data import steps

        return steps.without_errors(self, log_warning).named(name)
