"""`ExponentialMovingAverage`: variables that hold moving averages of variables and tensors.

Semantics: tensorflow/python/training/moving_averages.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import functions
from graphmill.deprecations import renamed_arguments, warn_renamed
from graphmill.errors import InvalidArgumentError
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import Variable, trainable_variables
from graphmill.ops import math

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor


class ExponentialMovingAverage:
    """Moving averages of variables, for evaluation, or of tensors.

        w = graphmill.Variable(0.0, name="w")
        averages = graphmill.train.ExponentialMovingAverage(decay=0.75)
        update = averages.apply([w])
        session.run(graphmill.global_variables_initializer())
        session.run(w.assign(8.0))
        session.run(update)
        print(session.run(averages.average(w)))  # 2.0

    An update computes `decay * average + (1 - decay) * value`.
    """

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        """Set the decay.

        Args:
            decay: the weight of the old average in an update.
            num_updates: number of updates so far; if given, the first updates use a smaller decay.
            zero_debias: whether averages of tensors, which begin at 0, are divided by the sum of
                the weights so far. Those of variables begin at the initial value. A name is taken
                as `name`, with a warning for one version.
            name: name of the scope, and the suffix of the averages' names.
        """
        if isinstance(zero_debias, str):
            warn_renamed("the third argument of ExponentialMovingAverage, a name,", "name")
            zero_debias, name = False, zero_debias
        self.name = name
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._averages: dict[Tensor, Variable] = {}

    def apply(self, var_list: Sequence[Tensor] | None = None) -> Node:
        """Return a node that updates averages.

        Args:
            var_list: variables and tensors; by default all trainable variables.
        """
        chosen = trainable_variables() if var_list is None else list(var_list)
        graph: Any = infer_graph(*chosen)
        for variable in chosen:
            if variable not in self._averages:
                self._averages[variable] = self._average_of(variable)
        with graph.as_default(), graph.name_scope(self.name) as scope:
            decay: Any = self._decay
            if self._num_updates is not None:
                steps = math.cast(graph.convert(self._num_updates), DstT="float32")
                decay = math.minimum(decay, (1.0 + steps) / (10.0 + steps))
            updates = [self._updated(variable, decay) for variable in chosen]
            return group(*updates, name=scope)

    @renamed_arguments(variable="var")
    def average(self, var: Tensor) -> Variable | None:
        """Return the variable that holds the average of a variable or tensor, or None."""
        return self._averages.get(var)

    @renamed_arguments(variable="var")
    def average_name(self, var: Tensor) -> str:
        """Return the name of the average of a variable or tensor."""
        name = var.variable_name if isinstance(var, Variable) else var.op.name
        return f"{name}/{self.name}"

    @renamed_arguments(variables="moving_avg_variables")
    def variables_to_restore(
        self, moving_avg_variables: Sequence[Variable] | None = None
    ) -> dict[str, Variable]:
        """Return variables by the names of their averages, for a `Saver` to restore these."""
        given = moving_avg_variables
        chosen = trainable_variables() if given is None else list(given)
        return {self.average_name(variable): variable for variable in chosen}

    def _average_of(self, tensor: Tensor) -> Variable:
        graph, name = tensor.graph, self.average_name(tensor)
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(None):
            if not isinstance(tensor, Variable):
                return _zeros_variable(tensor, name)
            return Variable(
                tensor.initial_value,
                trainable=False,
                name=name,
                shape=tensor.static_shape,
                use_resource=tensor.is_resource,
            )

    def _updated(self, tensor: Tensor, decay: Any) -> Any:
        average = self._averages[tensor]
        if not isinstance(decay, float):
            decay = math.cast(decay, DstT=average.value_dtype)
        if isinstance(tensor, Variable):
            return average.assign_sub((average.read_value() - tensor.read_value()) * (1 - decay)).op
        if self._zero_debias:
            return _debiased(average, tensor, 1 - decay)
        return average.assign_sub((average.read_value() - tensor) * (1 - decay)).op


def _zeros_variable(tensor: Tensor, name: str) -> Variable:
    """Return a variable of zeros for a tensor, whose shape must be known."""
    shape = tensor.shape
    if not shape.is_fully_defined():
        raise InvalidArgumentError(
            f"the average of {tensor.name!r} needs a tensor of known shape, its shape is {shape}"
        )
    sizes = [size or 0 for size in shape]
    zeros = functions.zeros(sizes, tensor.dtype.base_dtype)
    return Variable(zeros, trainable=False, name=name)


def _debiased(average: Variable, tensor: Tensor, weight: Any) -> Node:
    """Update the average, divided by the sum of the weights so far.

    Args:
        average: the average.
        tensor: the new value.
        weight: the weight of the new value.
    """
    graph, scope = average.graph, average.variable_name
    with graph.control_dependencies(None), graph.name_scope(None):
        biased = _zeros_variable(tensor, f"{scope}/biased")
        steps = Variable(
            functions.zeros([], average.value_dtype), trainable=False, name=f"{scope}/local_step"
        )
    total = biased.assign_sub((biased.read_value() - tensor) * weight)
    count = steps.assign_add(1)
    weights = 1 - math.pow(1 - functions.cast(weight, average.value_dtype), count)
    node: Node = average.assign(total / weights, read_value=False)
    return node
