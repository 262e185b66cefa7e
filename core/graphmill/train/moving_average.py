"""`ExponentialMovingAverage`: shadow variables that hold moving averages of variables.

Semantics: tensorflow/python/training/moving_averages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.deprecations import renamed_arguments
from graphmill.graph.dependencies import group
from graphmill.graph.variable import Variable, trainable_variables
from graphmill.ops import math

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.node import Node


class ExponentialMovingAverage:
    """Moving averages of variables, for evaluation."""

    def __init__(
        self, decay: float, num_updates: Any = None, name: str = "ExponentialMovingAverage"
    ) -> None:
        """Set the decay.

        Args:
            decay: the weight of the old average in an update.
            num_updates: number of updates so far; if given, the first updates use a smaller decay.
            name: name of the scope, and the suffix of the averages' names.
        """
        self.name = name
        self._decay = decay
        self._num_updates = num_updates
        self._averages: dict[Variable, Variable] = {}

    def apply(self, var_list: Sequence[Variable] | None = None) -> Node:
        """Return a node that updates the averages of variables, by default all trainable ones."""
        chosen = trainable_variables() if var_list is None else list(var_list)
        graph: Any = chosen[0].graph
        for variable in chosen:
            if variable not in self._averages:
                self._averages[variable] = self._made(variable)
        with graph.as_default(), graph.name_scope(self.name) as scope:
            decay: Any = self._decay
            if self._num_updates is not None:
                steps = math.cast(graph.convert(self._num_updates), DstT="float32")
                decay = math.minimum(decay, (1.0 + steps) / (10.0 + steps))
            updates = [self._updated(variable, decay) for variable in chosen]
            return group(*updates, name=scope)

    @renamed_arguments(variable="var")
    def average(self, var: Variable) -> Variable | None:
        """Return the variable that holds the average of a variable, or None."""
        return self._averages.get(var)

    @renamed_arguments(variable="var")
    def average_name(self, var: Variable) -> str:
        """Return the name of a variable's average."""
        return f"{var.variable_name}/{self.name}"

    @renamed_arguments(variables="moving_avg_variables")
    def variables_to_restore(
        self, moving_avg_variables: Sequence[Variable] | None = None
    ) -> dict[str, Variable]:
        """Return variables by the names of their averages, for a `Saver` to restore these."""
        given = moving_avg_variables
        chosen = trainable_variables() if given is None else list(given)
        return {self.average_name(variable): variable for variable in chosen}

    def _made(self, variable: Variable) -> Variable:
        graph: Any = variable.graph
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(None):
            return Variable(
                variable.initial_value,
                trainable=False,
                name=self.average_name(variable),
                shape=variable.static_shape,
                use_resource=variable.is_resource,
            )

    def _updated(self, variable: Variable, decay: Any) -> Any:
        average = self._averages[variable]
        if not isinstance(decay, float):
            decay = math.cast(decay, DstT=variable.value_dtype)
        return average.assign_sub((average.read_value() - variable.read_value()) * (1 - decay)).op
