"""Random functions of two vectors and a matrix, built by TensorFlow from a seed.

A function consists of element-wise and shape-changing operations, nested loops and branches, arrays
of tensors, reads of variables and stopped gradients. TensorFlow and graphmill compute its
derivatives.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SIZE = 3
DEPTH = 2
"""The nesting depth of loops and branches."""


@dataclass
class Request:
    """The gradients to compute: options of `gradients`, as names of tensors in the graph."""

    ys: list[str]
    xs: list[str]
    grad_ys: list[str] | None = None
    stop_gradients: list[str] | None = None
    unconnected: str = "none"
    again: bool = False
    """Whether to differentiate the sum of the results a second time."""


@dataclass
class GradientProgram:
    """A graph of TensorFlow, the values to feed, and the node that initializes its variables."""

    graph: Any
    feeds: dict[str, Any]
    start: str
    request: Request


class Builder:
    """Draws operations and adds them to TensorFlow's default graph."""

    def __init__(self, tf: Any, seed: int) -> None:
        self.tf = tf
        self.draw = random.Random(seed)
        self.variable: Any = None

    def vector(self, env: list[Any], depth: int) -> Any:
        """Return a new vector of `SIZE` numbers."""
        kinds: list[Callable[[list[Any], int], Any]] = [
            self.unary,
            self.unary,
            self.binary,
            self.binary,
            self.reshaped,
            self.gathered,
            self.product,
            self.read,
        ]
        if depth:
            kinds += [self.loop, self.loop, self.branch, self.branch, self.array_loop, self.mapped]
        return self.draw.choice(kinds)(env, depth)

    def unary(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x = self.draw.choice(env)
        return self.draw.choice(
            [
                lambda: tf.tanh(x),
                lambda: tf.sin(x),
                lambda: tf.exp(-x * x),
                lambda: tf.nn.softmax(x),
                lambda: tf.sigmoid(x),
                lambda: tf.nn.elu(x),
                lambda: tf.math.cumsum(x, reverse=self.draw.random() < 0.5),
                lambda: tf.stop_gradient(x),
                lambda: tf.abs(x),
                lambda: tf.sqrt(x * x + 1),
                lambda: tf.cast(tf.cast(x, tf.float32), tf.float64),
                lambda: tf.identity(x),
            ]
        )()

    def binary(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x, y = self.draw.choice(env), self.draw.choice(env)
        return self.draw.choice(
            [
                lambda: x + y,
                lambda: x - y,
                lambda: x * y,
                lambda: tf.maximum(x, y),
                lambda: x / (y * y + 1),
                lambda: tf.where(x > y, tf.sin(x), y),
                lambda: tf.add_n([x, y, x]),
                lambda: tf.math.squared_difference(x, y) * 0.3,
                lambda: tf.tanh(x * tf.reduce_sum(y)),
                lambda: x * tf.reduce_max(y) * 0.2,
            ]
        )()

    def reshaped(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x, y = self.draw.choice(env), self.draw.choice(env)
        both = tf.stack([x, y], axis=self.draw.randrange(2))
        return self.draw.choice(
            [
                lambda: tf.reduce_mean(both, axis=both.shape.as_list().index(2)),
                lambda: tf.concat([x[1:], y[:1]], 0),
                lambda: tf.reverse(x, [0]),
                lambda: tf.split(tf.concat([x, y], 0), 2)[self.draw.randrange(2)],
                lambda: tf.pad(x[:2], [[1, 0]]),
                lambda: tf.reshape(tf.transpose(both), [-1])[::2],
                lambda: tf.reduce_prod(tf.tanh(both), axis=both.shape.as_list().index(2)),
                lambda: tf.squeeze(tf.expand_dims(x, 0), 0) + tf.broadcast_to(y[:1], [SIZE]),
                lambda: tf.roll(x, 1, 0),
            ]
        )()

    def gathered(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x = self.draw.choice(env)
        at = [self.draw.randrange(SIZE) for _ in range(SIZE)]
        return self.draw.choice(
            [
                lambda: tf.gather(x, at),
                lambda: tf.gather_nd(x, [[i] for i in at]),
                lambda: tf.math.unsorted_segment_sum(x, at, SIZE),
                lambda: tf.scatter_nd([[i] for i in at], x, [SIZE]),
                lambda: tf.boolean_mask(tf.concat([x, x], 0), [True, False] * SIZE),
                lambda: tf.dynamic_stitch([[0, 2], [1]], [x[:2], x[2:]]),
                lambda: tf.concat(tf.dynamic_partition(x, [i % 2 for i in at], 2), 0),
                lambda: tf.tensor_scatter_nd_update(x, [[at[0]]], [x[at[1]] * 2]),
                lambda: tf.math.top_k(x, SIZE).values,
            ]
        )()

    def product(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x, y = self.draw.choice(env), self.draw.choice(env)
        return self.draw.choice(
            [
                lambda: tf.tanh(tf.linalg.matvec(tf.tensordot(x, y, 0), x)),
                lambda: tf.reshape(tf.matmul(x[:, None], y[:1, None]), [SIZE]),
                lambda: tf.einsum("i,j->i", x, tf.tanh(y)),
                lambda: tf.linalg.diag_part(tf.tensordot(x, y, 0)),
            ]
        )()

    def read(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        if self.variable is None or self.draw.random() < 0.3:
            return self.unary(env, depth)
        x = self.draw.choice(env)
        if self.draw.random() < 0.5:
            return x * self.variable[self.draw.randrange(2)]
        return tf.nn.embedding_lookup(self.variable, self.draw.randrange(2)) + x

    def body(self, env: list[Any], depth: int) -> Any:
        """Return a vector made in one to three operations."""
        made = list(env)
        for _ in range(self.draw.randint(1, 3)):
            made.append(self.vector(made, depth))
        return self.tf.ensure_shape(self.tf.tanh(made[-1]), [SIZE])

    def loop(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        trips = self.draw.randrange(4)
        first, second = self.draw.choice(env), self.draw.choice(env)
        parallel = self.draw.choice([1, 10])
        by_value = self.draw.random() < 0.3

        def more(i: Any, x: Any, y: Any) -> Any:
            del y
            go_on = i < trips
            return tf.logical_and(go_on, tf.reduce_sum(x) < 2.5) if by_value else go_on

        def step(i: Any, x: Any, y: Any) -> Any:
            inside = [*env, x, y, x * tf.cast(i, tf.float64)]
            new = self.body(inside, depth - 1)
            return [i + 1, new, self.draw.choice([x, y, tf.sin(y)])]

        found = tf.compat.v1.while_loop(
            more,
            step,
            [tf.constant(0), first, second],
            parallel_iterations=parallel,
            swap_memory=self.draw.random() < 0.2,
        )
        return found[self.draw.choice([1, 2])]

    def array_loop(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        trips = self.draw.randint(1, 3)
        first = self.draw.choice(env)
        array = tf.TensorArray(tf.float64, trips, clear_after_read=False, element_shape=[SIZE])

        def step(i: Any, x: Any, written: Any) -> Any:
            new = self.body([*env, x], depth - 1)
            return [i + 1, new, written.write(i, new + x)]

        _, last, array = tf.compat.v1.while_loop(
            lambda i, _x, _a: i < trips, step, [tf.constant(0), first, array]
        )
        return self.draw.choice(
            [
                lambda: tf.reduce_sum(array.stack(), 0),
                lambda: array.read(self.draw.randrange(trips)) * last,
                lambda: tf.reshape(array.concat(), [trips, SIZE])[-1],
                lambda: array.gather([0, trips - 1])[self.draw.randrange(2)],
            ]
        )()

    def branch(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        test = tf.reduce_sum(self.draw.choice(env)) > self.draw.choice([-9.0, 0.0, 0.2, 9.0])
        if self.draw.random() < 0.25:
            number = tf.cast(test, tf.int32) + self.draw.randrange(2)
            branches = [lambda: self.body(env, depth - 1) for _ in range(3)]
            return tf.switch_case(number, branches)
        if self.draw.random() < 0.2:
            same = self.draw.choice(env)
            return tf.compat.v1.cond(
                test, lambda: tf.identity(same), lambda: self.body(env, depth - 1)
            )
        return tf.compat.v1.cond(
            test, lambda: self.body(env, depth - 1), lambda: self.body(env, depth - 1)
        )

    def mapped(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        rows = tf.stack([self.draw.choice(env) for _ in range(2)])
        if self.draw.random() < 0.5:
            made = tf.map_fn(lambda row: self.body([*env, row], depth - 1), rows)
            return tf.reduce_sum(made, 0)
        first = self.draw.choice(env)
        made = tf.scan(lambda a, row: self.body([*env, a, row], depth - 1), rows, first)
        return made[self.draw.randrange(2)]


def gradient_program(tf: Any, seed: int) -> GradientProgram:
    """Build the graph of a seed and draw what to differentiate."""
    v1 = tf.compat.v1
    builder = Builder(tf, seed)
    draw = builder.draw
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float64, [SIZE], name="x")
        w = v1.placeholder(tf.float64, [SIZE], name="w")
        start = builder_start(builder, tf)
        env = [x, w]
        for _ in range(draw.randint(2, 6)):
            env.append(builder.vector(env, DEPTH))
        ys = [tf.identity(env[-1], name="y"), tf.identity(draw.choice(env), name="z")]
        ys = ys[: draw.randint(1, 2)]
        request = Request([y.name for y in ys], ["x:0", "w:0"])
        if builder.variable is not None and draw.random() < 0.6:
            request.xs.append(source_of(builder.variable))
        if draw.random() < 0.3:
            request.grad_ys = [
                tf.constant([draw.uniform(-1, 1) for _ in range(SIZE)], tf.float64).name for _ in ys
            ]
        request.unconnected = draw.choice(["none", "zero"])
        request.again = draw.random() < 0.5
        inner = [one.name for one in env[2:-1] if one.op.type != "Const"]
        if inner and not request.again and draw.random() < 0.5:
            request.xs.append(draw.choice(inner))
        if inner and not request.again and draw.random() < 0.4:
            request.stop_gradients = [draw.choice(inner)]
    feeds = {name: [draw.uniform(-1, 1) for _ in range(SIZE)] for name in ("x:0", "w:0")}
    return GradientProgram(graph, feeds, start, request)


def builder_start(builder: Builder, tf: Any) -> str:
    """Give half of the programs a variable; return the name of its initializer, or ""."""
    draw = builder.draw
    if draw.random() < 0.5:
        return ""
    rows = [[draw.uniform(-1, 1) for _ in range(SIZE)] for _ in range(2)]
    builder.variable = tf.compat.v1.Variable(
        rows, dtype=tf.float64, name="v", use_resource=draw.random() < 0.7
    )
    name: str = builder.variable.initializer.name
    return name


def source_of(variable: Any) -> str:
    """Return the tensor by which a variable is differentiated."""
    source = variable.handle if hasattr(variable, "handle") else variable._ref()
    name: str = source.name
    return name
