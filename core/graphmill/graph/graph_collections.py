"""The collections of a graph: lists of variables, summaries and other values by key.

Semantics: tf.Graph of tensorflow/python/framework/ops.py.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.tensor import Tensor
    from graphmill.graph.variable import Variable

_TRAINABLE: Final = "trainable_variables"


class GraphCollections:
    """Collections by key; those of TensorFlow have TensorFlow's keys.

    Attributes:
        variables: the variables, in order of creation: the collection "variables". Those that
            optimizers update by default are the collection "trainable_variables".
        summaries: the summaries for TensorBoard (`graphmill.summary`), in order of creation.
        queue_runners: the threads that fill queues (`graphmill.train.QueueRunner`).
    """

    def __init__(self) -> None:
        self.variables: list[Variable] = []
        self.summaries: list[Tensor] = []
        self.queue_runners: list[Any] = []
        self._others: dict[str, list[Any]] = {}
        super().__init__()

    def add_to_collection(self, name: str, value: Any) -> None:
        """Add a value to a collection: a tensor, a node, a number or bytes."""
        self._others.setdefault(name, []).append(value)

    def add_to_collections(self, names: Iterable[str] | str, value: Any) -> None:
        """Add a value to several collections, to each once."""
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """Return the values of a collection.

        Args:
            name: the key of the collection.
            scope: a regular expression; only values whose names begin with it are returned.
        """
        found = [*self._own(name), *self._others.get(name, [])]
        if scope is None:
            return found
        named = [item for item in found if hasattr(item, "name")]
        return [item for item in named if re.match(scope, item.name)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """Return the list of a collection itself, which the caller may change.

        That of "trainable_variables" is a copy: `Variable.trainable` decides what is in it.
        """
        if name == _TRAINABLE:
            return self.get_collection(name)
        lists = self._lists()
        return lists[name] if name in lists else self._others.setdefault(name, [])

    @property
    def collections(self) -> list[str]:
        """The keys of all collections, in a list of its own.

        Those of variables, summaries and queue runners come first, and only if they have a value.
        """
        own = [key for key in (*self._lists(), _TRAINABLE) if self._own(key)]
        return list(dict.fromkeys([*own, *self._others]))

    def get_all_collection_keys(self) -> list[str]:
        """Return the keys of all collections that are text."""
        return [key for key in self.collections if isinstance(key, str)]

    def clear_collection(self, name: str) -> None:
        """Remove all values of a collection; of "trainable_variables": make none trainable."""
        self._others.pop(name, None)
        if name == _TRAINABLE:
            for variable in self.variables:
                variable.trainable = False
        elif name in self._lists():
            self._lists()[name].clear()

    def _lists(self) -> dict[str, list[Any]]:
        """Return the lists of the collections that have attributes."""
        return {
            "variables": self.variables,
            "summaries": self.summaries,
            "queue_runners": self.queue_runners,
        }

    def _own(self, name: str) -> list[Any]:
        if name == _TRAINABLE:
            return [item for item in self.variables if item.trainable]
        return self._lists().get(name, [])
