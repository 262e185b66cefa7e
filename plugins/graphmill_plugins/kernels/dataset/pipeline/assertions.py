"""Datasets that assert which datasets come before or after them in the pipeline.

Semantics: tensorflow/core/kernels/data/experimental/{assert_next_dataset_op,
assert_prev_dataset_op}.cc. Tests of TensorFlow's graph optimizations use them; here a pipeline runs
as it was written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi.protos import attr_to_proto, canonical
from graphmill_plugins.kernels.dataset.pipeline.basic import Repeat, Skip, Take
from graphmill_plugins.kernels.dataset.pipeline.dataset import path_to_root
from graphmill_plugins.kernels.dataset.pipeline.hint import Hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, Elements, Scope


class AssertNext(Hint):
    """The elements of the input; fails unless the next datasets have certain names."""

    def __init__(self, source: Dataset, names: Sequence[str]) -> None:
        super().__init__(source)
        self._names = names

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements.

        Raises:
            InvalidArgumentError: the next datasets have other names.
            UnimplementedError: the dataset was made by a function of the pipeline.
        """
        path = None if scope.root is None else path_to_root(scope.root, self)
        if path is None:
            raise UnimplementedError("AssertNextDataset is not supported inside of functions")
        names = [_iterator_name(dataset) for dataset in path if not _is_plain_hint(dataset)]
        if len(self._names) > len(names):
            raise InvalidArgumentError(
                f"Asserted next {len(self._names)} transformations but encountered only "
                f"{len(names)}."
            )
        for offset, (name, asserted) in enumerate(zip(self._names, names, strict=False)):
            if not _is_version_of(asserted, name):
                raise InvalidArgumentError(
                    f"Asserted transformation matching {name} at offset {offset} but encountered "
                    f"{asserted} transformation instead."
                )
        return super().iterate(scope)


class AssertPrevious(Hint):
    """The elements of the input; fails unless the previous datasets have certain ops and attrs.

    Args:
        source: the dataset.
        calls: a `NameAttrList` for each previous dataset, beginning with the last one.
        ops: the registry of ops.
    """

    def __init__(self, source: Dataset, calls: Sequence[Any], ops: Any) -> None:
        super().__init__(source)
        self._calls, self._ops = calls, ops

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements.

        Raises:
            InvalidArgumentError: the previous datasets have other ops or attrs.
        """
        datasets = list(_previous(self))
        if len(self._calls) > len(datasets):
            raise InvalidArgumentError(
                f"Asserted previous {len(self._calls)} transformations but encountered only "
                f"{len(datasets)}."
            )
        for offset, (call, dataset) in enumerate(zip(self._calls, datasets, strict=False)):
            problem = self._problem(call, dataset)
            if problem:
                raise InvalidArgumentError(
                    f"Failure checking transformations at offset {offset}: {problem}"
                )
        return super().iterate(scope)

    def _problem(self, call: Any, dataset: Dataset) -> str:
        origin = dataset.origin
        op = "" if origin is None else origin.op
        if origin is None or not _is_version_of(op, call.name):
            return f"Asserted transformation matching '{call.name}', but found '{op}'."
        types = {attr.name: attr for attr in self._ops.get(op).attrs}
        for name, expected in call.attr.items():
            if name not in types or name not in origin.attrs:
                return f"Asserted attribute '{name}', but {op} has none."
            attr = types[name]
            actual = attr_to_proto(canonical(attr, origin.attrs[name], op), attr_type=attr.type)
            if actual != expected:
                return f"Asserted attribute '{name}' having a value of '{expected}', got '{actual}'"
        return ""


def _previous(dataset: Dataset) -> Iterator[Dataset]:
    while len(dataset.inputs) == 1:
        dataset = dataset.source
        if not _is_plain_hint(dataset):
            yield dataset


def _is_plain_hint(dataset: Dataset) -> bool:
    """Return whether TensorFlow removes the dataset before it runs the pipeline."""
    return dataset.origin is not None and dataset.origin.op == "OptionsDataset"


def _iterator_name(dataset: Dataset) -> str:
    """Return the name of a dataset's iterators in TensorFlow."""
    op = type(dataset).__name__ if dataset.origin is None else dataset.origin.op
    name = op.replace("Dataset", "").removeprefix("Experimental")
    if isinstance(dataset, (Take, Skip)):
        return f"Finite{name}"
    if isinstance(dataset, Repeat):
        return f"Forever{name}" if dataset.cardinality < 0 else f"Finite{name}"
    return name


def _is_version_of(actual: str, name: str) -> bool:
    return re.fullmatch(re.escape(name) + r"(V\d+)?", actual) is not None
