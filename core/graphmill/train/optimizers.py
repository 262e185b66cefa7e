"""TensorFlow's optimizers. Semantics: tensorflow/python/training/*.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from graphmill.deprecations import warn_renamed
from graphmill.graph.variable import Variable
from graphmill.ops import array, math, state
from graphmill.train.optimizer import Optimizer

if TYPE_CHECKING:
    from graphmill.backprop.indexed_slices import IndexedSlices
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor


_SMALLEST_RATE: Final = 1e-36
"""The learning rate by which a smaller one is replaced where a number is divided by it."""


class GradientDescentOptimizer(Optimizer):
    """Gradient descent.

        w = graphmill.Variable(3.0)
        step = graphmill.train.GradientDescentOptimizer(learning_rate=0.1).minimize(w * w)
        session.run(w.initializer)
        session.run(step)
        print(round(float(session.run(w)), 3))  # 2.4

    An update computes `variable - learning_rate * gradient`.

    Args:
        learning_rate: a number, a scalar tensor, or a function that returns one of these.
        use_locking: whether updates hold the variable's lock.
        name: prefix of the names of the nodes.
    """

    update_op = "GradientDescent"

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        """Set the learning rate."""
        super().__init__(name, use_locking, alpha=learning_rate)

    def _sparse(self, slices: IndexedSlices, variable: Variable) -> Node:
        rate = self._number(variable.graph, "alpha", variable.value_dtype)
        step = -slices.values * rate
        if variable.is_resource:
            node: Node = state.resource_scatter_add(variable.handle, slices.indices, step)
            return node
        return state.scatter_add(variable.handle, slices.indices, step).op


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum.

    An update computes `accumulator = momentum * accumulator + gradient`, and subtracts
    `learning_rate * accumulator` from the variable. The slot is `momentum`.

    Args:
        learning_rate, momentum: numbers, scalar tensors, or functions that return one of these.
        use_locking, name: as for `GradientDescentOptimizer`.
        use_nesterov: whether to use Nesterov's form, which subtracts
            `learning_rate * (gradient + momentum * accumulator)`.
    """

    update_op = "Momentum"
    _slots: ClassVar = {"accum": "momentum"}

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        """Set the learning rate and momentum."""
        super().__init__(name, use_locking, lr=learning_rate, momentum=momentum)
        self._use_nesterov = use_nesterov

    def _attrs(self) -> dict[str, Any]:
        return {"use_nesterov": self._use_nesterov}


class AdagradOptimizer(Optimizer):
    """Adagrad: divides by the root of the sum of squared gradients.

    The slot is `accumulator`.

    Args:
        learning_rate: a number, a scalar tensor, or a function that returns one of these.
        initial_accumulator_value: the sum of squares before the first update, above 0.
        use_locking, name: as for `GradientDescentOptimizer`.
    """

    update_op = "Adagrad"
    _slots: ClassVar = {"accum": "accumulator"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        """Set the learning rate and the initial accumulator value."""
        super().__init__(name, use_locking, lr=learning_rate)
        self._initial = initial_accumulator_value

    def _create_slots(self, variable: Variable) -> None:
        self._slot(variable, "accumulator", lambda: _filled(variable, self._initial))


class AdadeltaOptimizer(Optimizer):
    """Adadelta: scales by the ratio of running averages of updates and gradients.

    The slots are `accum` and `accum_update`.

    Args:
        learning_rate, rho, epsilon: numbers, scalar tensors, or functions that return one of
            these: the learning rate, the decay of the averages, and what is added to both.
        use_locking, name: as for `GradientDescentOptimizer`.
    """

    update_op = "Adadelta"
    _slots: ClassVar = {"accum": "accum", "accum_update": "accum_update"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        """Set the learning rate, the decay and epsilon."""
        super().__init__(name, use_locking, lr=learning_rate, rho=rho, epsilon=epsilon)


class RMSPropOptimizer(Optimizer):
    """RMSProp: divides by the root of the running mean of squares, or of the running variance.

    The slots are `rms` and `momentum`, and with `centered` also `mg`, the mean of the gradients.

    Args:
        learning_rate, decay, momentum, epsilon: numbers, scalar tensors, or functions that return
            one of these; `decay` is that of the mean, `epsilon` is added to it.
        use_locking, name: as for `GradientDescentOptimizer`.
        centered: whether to divide by the root of the variance.
    """

    update_op = "RMSProp"
    _slots: ClassVar = {"ms": "rms", "mom": "momentum", "mg": "mg"}

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        """Set the learning rate, the decay, the momentum and epsilon."""
        super().__init__(
            name, use_locking, lr=learning_rate, rho=decay, momentum=momentum, epsilon=epsilon
        )
        self._is_centered = centered
        if centered:
            self.update_op = "CenteredRMSProp"  # type: ignore[misc]
        else:
            self._slots = {"ms": "rms", "mom": "momentum"}  # type: ignore[misc]

    def _create_slots(self, variable: Variable) -> None:
        self._slot(variable, "rms", lambda: _filled(variable, 1))
        for slot in ("mg", "momentum") if self._is_centered else ("momentum",):
            self._slot(variable, slot, lambda: array.zeros_like(variable.initial_value))


class FtrlOptimizer(Optimizer):
    """FTRL: follow the regularized leader.

    The slots are `accum` and `linear`.

    Args:
        learning_rate: a number, a scalar tensor, or a function that returns one of these.
        learning_rate_power: the power of the accumulator that scales the learning rate, at most 0.
        initial_accumulator_value: the sum of squares before the first update, at least 0.
        l1_regularization_strength, l2_regularization_strength: the penalties of the weights.
        use_locking, name: as for `GradientDescentOptimizer`.
        accum_name, linear_name: the names of the slot variables, by default that of the optimizer.
        l2_shrinkage_regularization_strength: the penalty of large weights, which is added to the
            gradient. A number as the eighth argument is taken for it, with a warning for one
            version.
        beta: a number that adds `beta / (2 * learning_rate)` to the penalty `l2`; by default 0.
    """

    update_op = "Ftrl"
    _slots: ClassVar = {"accum": "accum", "linear": "linear"}

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: Any = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: Any = 0.0,
        l2_regularization_strength: Any = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: Any = 0.0,
        beta: Any = None,
    ) -> None:
        """Set the learning rate, its power, the initial accumulator and the penalties."""
        if not isinstance(accum_name, str | None):
            warn_renamed(
                "the eighth argument of FtrlOptimizer, a number,",
                "l2_shrinkage_regularization_strength",
            )
            accum_name, l2_shrinkage_regularization_strength = None, accum_name
        numbers = {
            "lr": learning_rate,
            "lr_power": learning_rate_power,
            "l1": l1_regularization_strength,
            "l2": l2_regularization_strength,
        }
        if l2_shrinkage_regularization_strength:
            numbers["l2_shrinkage"] = l2_shrinkage_regularization_strength
            self.update_op = "FtrlV2"  # type: ignore[misc]
        if beta is not None:
            numbers["l2"] = lambda: _adjusted_l2(l2_regularization_strength, beta, learning_rate)
        super().__init__(name, use_locking, **numbers)
        self._initial = initial_accumulator_value
        self._accum_name, self._linear_name = accum_name, linear_name

    def _create_slots(self, variable: Variable) -> None:
        self._slot(variable, "accum", lambda: _filled(variable, self._initial), self._accum_name)
        self._slot(
            variable, "linear", lambda: array.zeros_like(variable.initial_value), self._linear_name
        )


def _adjusted_l2(l2: Any, beta: Any, learning_rate: Any) -> Any:
    """Return the penalty with which the update op acts as if it had the argument `beta`."""
    rate = learning_rate() if callable(learning_rate) else learning_rate
    if isinstance(rate, int | float):
        return l2 + beta / (2.0 * max(rate, _SMALLEST_RATE))
    return l2 + beta / (2.0 * math.maximum(rate, _SMALLEST_RATE))


class AdamOptimizer(Optimizer):
    """Adam: divides the first moment by the root of the second.

    The slots are `m` and `v`, the running means of the gradient and of its square.

        w = graphmill.Variable(3.0)
        step = graphmill.train.AdamOptimizer(learning_rate=0.1).minimize(w * w)
        session.run(graphmill.global_variables_initializer())
        session.run(step)
        print(round(float(session.run(w)), 3))  # 2.9

    Args:
        learning_rate, beta1, beta2, epsilon: numbers, scalar tensors, or functions that return one
            of these; `beta1` and `beta2` are the decays of `m` and `v`, `epsilon` is added to the
            root.
        use_locking, name: as for `GradientDescentOptimizer`.
    """

    update_op = "Adam"
    _slots: ClassVar = {"m": "m", "v": "v"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        """Set the learning rate, beta1, beta2 and epsilon."""
        super().__init__(
            name, use_locking, lr=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon
        )
        self._powers: dict[tuple[Any, str], Variable] = {}

    def variables(self) -> list[Variable]:
        """Return the variables that the optimizer has created: beta powers and slots."""
        return [*self._powers.values(), *super().variables()]

    def _create_slots(self, variable: Variable) -> None:
        graph: Any = variable.graph
        for name in ("beta1", "beta2"):
            if (graph, name) not in self._powers:
                self._powers[graph, name] = self._power(variable, name)
        super()._create_slots(variable)

    def _power(self, variable: Variable, name: str) -> Variable:
        graph: Any = variable.graph
        value = self._numbers[name]
        with graph.control_dependencies(None), graph.name_scope(None):
            return Variable(
                value() if callable(value) else value,
                trainable=False,
                name=f"{name}_power",
                dtype=variable.value_dtype,
                use_resource=variable.is_resource,
            )

    def _inputs(self, variable: Variable) -> dict[str, Any]:
        inputs = super()._inputs(variable)
        for name in ("beta1", "beta2"):
            power = self._powers[variable.graph, name]
            inputs[f"{name}_power"] = (
                power
                if power.value_dtype is variable.value_dtype
                else math.cast(power, DstT=variable.value_dtype)
            )
        return inputs

    def _sparse(self, slices: IndexedSlices, variable: Variable) -> Node:
        """Decay all rows of the moments, add the gradient's rows, and update the whole variable."""
        inputs = self._inputs(variable)
        graph: Any = variable.graph
        rate = inputs["lr"] * math.sqrt(1 - inputs["beta2_power"]) / (1 - inputs["beta1_power"])
        values, indices = slices.values, slices.indices
        moments = []
        for slot, decay, part in (
            ("m", inputs["beta1"], values),
            ("v", inputs["beta2"], math.square(values)),
        ):
            moment = self._slot_variables[variable, slot]
            decayed = moment.assign(moment.read_value() * decay)
            with graph.control_dependencies([decayed]):
                added = _scatter_add(moment, indices, part * (1 - decay))
            with graph.control_dependencies([added]):
                moments.append(moment.read_value())
        step = rate * moments[0] / (math.sqrt(moments[1]) + inputs["epsilon"])
        updated: Tensor = variable.assign_sub(step)
        return updated.op

    def _finished(self, updates: list[Node], global_step: Variable | None, scope: str) -> Node:
        graph: Any = updates[0].graph
        with graph.control_dependencies(updates):
            powers = []
            for name in ("beta1", "beta2"):
                power = self._powers[graph, name]
                decay = self._number(graph, name, power.value_dtype)
                powers.append(power.assign(power * decay).op)
        return super()._finished([*updates, *powers], global_step, scope)


def _scatter_add(variable: Variable, indices: Any, values: Any) -> Any:
    if variable.is_resource:
        return state.resource_scatter_add(variable.handle, indices, values)
    return state.scatter_add(variable.handle, indices, values)


def _filled(variable: Variable, value: float) -> Any:
    initial = variable.initial_value
    graph: Graph = variable.graph
    return array.fill(array.shape(initial), graph.constant(value, variable.value_dtype))
