"""A dataset with hints for computing its elements, which do not change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.kernels.dataset.pipeline.dataset import Derived

if TYPE_CHECKING:
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset, Element, Elements, Scope


class Hint(Derived):
    """The elements of the input.

    Attributes:
        options: the hints as a serialized `tf.data.Options` message.
    """

    is_indexed = True

    def __init__(self, source: Dataset, options: bytes = b"") -> None:
        super().__init__(source)
        self.options = options

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return self.source.iterate(scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(index, scope)
