"""Updates of some rows or elements of a variable, as methods of `Variable`.

Semantics: tensorflow/python/ops/variables.py and resource_variable_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidValueError
from graphmill.ops import array, state

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.inputs.arguments import TensorLike


class VariableUpdates:
    """Methods of a variable that change or read a part of it.

    Those with `sparse_delta` take `IndexedSlices`: rows and their indices. They return the new
    value of the variable.
    """

    __slots__ = ()

    handle: Tensor
    is_resource: bool

    if TYPE_CHECKING:

        @property
        def value_dtype(self) -> DType:
            """Element type of the value."""

        def read_value(self) -> Tensor:
            """Return a new read of the variable."""

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Add to rows.

        Args:
            sparse_delta: the rows, `IndexedSlices`.
            use_locking: whether a ref variable is locked meanwhile; resource variables always are.
            name: the name of the node.

        Raises:
            InvalidArgumentError: `sparse_delta` is something else.
        """
        return self._scattered("scatter_add", sparse_delta, use_locking, name)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Subtract from rows; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_sub", sparse_delta, use_locking, name)

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Replace rows by the maximum of both; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_max", sparse_delta, use_locking, name)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Replace rows by the minimum of both; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_min", sparse_delta, use_locking, name)

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Multiply rows; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_mul", sparse_delta, use_locking, name)

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Divide rows; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_div", sparse_delta, use_locking, name)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Tensor:
        """Replace rows; arguments and result are those of `scatter_add`."""
        return self._scattered("scatter_update", sparse_delta, use_locking, name)

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Tensor:
        """Add to the slices that index vectors point to, and return the new value."""
        return self._changed_slices("scatter_nd_add", indices, updates, name)

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Tensor:
        """Subtract from the slices that index vectors point to, and return the new value."""
        return self._changed_slices("scatter_nd_sub", indices, updates, name)

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Tensor:
        """Replace the slices that index vectors point to, and return the new value."""
        return self._changed_slices("scatter_nd_update", indices, updates, name)

    def count_up_to(self, limit: int) -> Tensor:
        """Return the value, and add one to it; a step fails with OutOfRangeError at `limit`."""
        if self.is_resource:
            dtype = self.value_dtype
            return state.resource_count_up_to(self.handle, limit=limit, T=dtype)
        return state.count_up_to(self.handle, limit=limit)

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows with the given indices."""
        if self.is_resource:
            return state.resource_gather(self.handle, indices, dtype=self.value_dtype, name=name)
        return array.gather_v2(self.handle, indices, 0, name=name)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the slices that index vectors point to."""
        if self.is_resource:
            return state.resource_gather_nd(self.handle, indices, dtype=self.value_dtype, name=name)
        return array.gather_nd(self.handle, indices, name=name)

    def _scattered(self, op: str, sparse_delta: Any, use_locking: bool, name: str | None) -> Tensor:
        if not (hasattr(sparse_delta, "indices") and hasattr(sparse_delta, "values")):
            raise InvalidValueError(
                f"sparse_delta must be IndexedSlices, got {type(sparse_delta).__name__}"
            )
        indices, rows = sparse_delta.indices, sparse_delta.values
        if not self.is_resource:
            by_ref = getattr(state, op)
            changed: Tensor = by_ref(self.handle, indices, rows, use_locking=use_locking, name=name)
            return changed
        by_handle = getattr(state, f"resource_{op}")
        return self._read_after(by_handle(self.handle, indices, rows, name=name))

    def _changed_slices(
        self, op: str, indices: TensorLike, updates: TensorLike, name: str | None
    ) -> Tensor:
        if not self.is_resource:
            changed: Tensor = getattr(state, op)(
                self.handle, indices, updates, use_locking=True, name=name
            )
            return changed
        by_handle = getattr(state, f"resource_{op}")
        return self._read_after(by_handle(self.handle, indices, updates, name=name))

    def _read_after(self, change: Any) -> Tensor:
        with self.handle.graph.control_dependencies([change]):
            return self.read_value()
