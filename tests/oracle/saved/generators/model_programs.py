"""Random TensorFlow 2 modules, saved as SavedModels: functions, state, tables and gradients.

A module has variables, a table, a constant that its functions capture, and two to four signatures.
The body of each is drawn from a seed: loops with arrays of tensors and ragged values, conditionals,
updates of variables, look-ups, calls of other functions, and gradients through all of these.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH = 3
DEPTH = 2
"""The nesting depth of loops and conditionals."""

WORDS = ["a", "b", "c", "d"]


class Body:
    """Draws operations on vectors of `WIDTH` numbers, and adds them to the current function."""

    def __init__(self, tf: Any, draw: random.Random, module: Any, *, updates: bool) -> None:
        self.tf = tf
        self.draw = draw
        self.module = module
        self.updates = updates

    def vector(self, env: list[Any], depth: int) -> Any:
        """Return a new vector."""
        kinds: list[Callable[[list[Any], int], Any]] = [
            self.plain,
            self.plain,
            self.plain,
            self.state,
            self.table,
            self.shapes,
        ]
        if depth:
            kinds += [
                self.loop,
                self.array_loop,
                self.ragged_loop,
                self.branch,
                self.switch,
                self.call,
                self.mapped,
                self.gradient,
                self.folded,
            ]
        return self.draw.choice(kinds)(env, depth)

    def several(self, env: list[Any], depth: int, most: int = 2) -> Any:
        """Return a vector made in one operation or more, between -1 and 1."""
        made = list(env)
        for _ in range(self.draw.randint(1, most)):
            made.append(self.vector(made, depth))
        return self.tf.ensure_shape(self.tf.tanh(made[-1]), [WIDTH])

    def plain(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x, y = self.draw.choice(env), self.draw.choice(env)
        at = [self.draw.randrange(WIDTH) for _ in range(WIDTH)]
        return self.draw.choice(
            [
                lambda: x + y,
                lambda: x * y,
                lambda: tf.sin(x) - y,
                lambda: tf.nn.softmax(x * 2),
                lambda: tf.gather(x, at),
                lambda: tf.where(x > y, x, tf.cos(y)),
                lambda: tf.cumsum(x),
                lambda: tf.linalg.matvec(self.module.weights, x),
                lambda: x * self.module.captured,
                lambda: tf.sort(x, direction="DESCENDING"),
                lambda: tf.concat([x[:1], y[1:]], 0),
                lambda: tf.cast(tf.argsort(x), tf.float32) * y,
                lambda: tf.math.segment_sum(tf.concat([x, y], 0), [0, 0, 1, 1, 2, 2]),
                lambda: tf.clip_by_norm(x, 0.5),
                lambda: tf.cast(tf.cast(x * 100, tf.int32) % 7, tf.float32) * 0.1,
                lambda: tf.reverse(x, [-1]),
            ]
        )()

    def shapes(self, env: list[Any], depth: int) -> Any:
        """Make values of a size that only the step knows."""
        del depth
        tf = self.tf
        x, y = self.draw.choice(env), self.draw.choice(env)
        return self.draw.choice(
            [
                lambda: x + tf.reduce_sum(tf.boolean_mask(y, y > 0)),
                lambda: x + tf.cast(tf.size(tf.where(y > 0)), tf.float32),
                lambda: x * tf.cast(tf.size(tf.unique(tf.cast(y * 2, tf.int32))[0]), tf.float32),
                lambda: (
                    tf.reduce_sum(
                        tf.RaggedTensor.from_value_rowids(y, [0, 0, 2], nrows=WIDTH), axis=1
                    )
                    + x
                ),
                lambda: (
                    x + tf.strings.to_number(tf.strings.as_string(tf.cast(y[0] * 9, tf.int32))) / 9
                ),
                lambda: tf.sparse.to_dense(
                    tf.sparse.from_dense(tf.where(x > 0, x, tf.zeros_like(x)))
                ),
            ]
        )()

    def state(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x = self.draw.choice(env)
        v = self.draw.choice([self.module.total, self.module.rows])
        if not self.updates or self.draw.random() < 0.4:
            return x + (v if v.shape.rank == 1 else tf.gather(v, self.draw.randrange(2)))
        if v.shape.rank == 1:
            update = self.draw.choice([v.assign_add, v.assign_sub, v.assign])
            return update(tf.tanh(x)) * 0.5
        row = self.draw.randrange(2)
        v.scatter_update(tf.IndexedSlices(tf.tanh(x), row))
        return x + tf.reduce_sum(v, 0)

    def table(self, env: list[Any], depth: int) -> Any:
        del depth
        tf = self.tf
        x = self.draw.choice(env)
        word = tf.gather(tf.constant([*WORDS, "?"]), tf.cast(tf.abs(x[0]) * 9, tf.int32) % 5)
        return x + tf.cast(self.module.table.lookup(word), tf.float32) * 0.1

    def loop(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        trips = self.trips(env)
        limit = self.draw.choice([99.0, 1.0])
        first = [self.draw.choice(env), self.draw.choice(env)]
        _, x, y = tf.while_loop(
            lambda i, x, y: tf.logical_and(i < trips, tf.reduce_sum(x) < limit),
            lambda i, x, y: (
                i + 1,
                self.several([*env, x, y, y * tf.cast(i, tf.float32)], depth - 1),
                self.draw.choice([x, y]),
            ),
            (0, *first),
            parallel_iterations=self.draw.choice([1, 10]),
            maximum_iterations=self.draw.choice([None, 2]),
        )
        return self.draw.choice([x, y])

    def trips(self, env: list[Any]) -> Any:
        """Return a number of iterations, constant or computed."""
        tf = self.tf
        if self.draw.random() < 0.5:
            return tf.constant(self.draw.randrange(4))
        return tf.cast(tf.abs(self.draw.choice(env)[0]) * 10, tf.int32) % 4

    def array_loop(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        trips = self.draw.randint(1, 3)
        is_dynamic = self.draw.random() < 0.5
        array = tf.TensorArray(
            tf.float32, 0 if is_dynamic else trips, is_dynamic, element_shape=[WIDTH]
        )
        _, last, array = tf.while_loop(
            lambda i, x, a: i < trips,
            lambda i, x, a: (i + 1, self.several([*env, x], depth - 1), a.write(i, x)),
            (0, self.draw.choice(env), array),
        )
        return self.draw.choice(
            [
                lambda: tf.reduce_sum(array.stack(), 0),
                lambda: array.read(trips - 1) + last,
                lambda: tf.reshape(array.concat(), [-1, WIDTH])[0],
                lambda: array.gather([0])[0] * tf.cast(array.size(), tf.float32),
            ]
        )()

    def ragged_loop(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        x = self.draw.choice(env)
        first = tf.RaggedTensor.from_row_lengths(x, [1, 2])

        def step(i: Any, rows: Any) -> Any:
            longer = tf.concat([rows, tf.RaggedTensor.from_row_lengths(x, [2, 1])], axis=1)
            halved = tf.map_fn(
                lambda row: row * 0.5,
                longer,
                fn_output_signature=tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0),
            )
            return i + 1, halved

        shape = (tf.TensorSpec([], tf.int32), tf.RaggedTensorSpec([2, None], tf.float32))
        trips = self.draw.choice([0, 2])
        _, rows = tf.while_loop(
            lambda i, rows: i < trips,
            step,
            (tf.constant(0), first),
            shape_invariants=shape,
        )
        return x + tf.reduce_sum(rows) * 0.1 + self.several([x], depth - 1, 1)

    def branch(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        test = tf.reduce_sum(self.draw.choice(env)) > self.draw.choice([-0.2, 0.0, 0.5])
        return tf.cond(
            test, lambda: self.several(env, depth - 1), lambda: self.several(env, depth - 1)
        )

    def switch(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        number = tf.cast(tf.abs(self.draw.choice(env)[0]) * 10, tf.int32) % 5
        branches = [lambda: self.several(env, depth - 1) for _ in range(3)]
        return tf.switch_case(number, branches)

    def call(self, env: list[Any], depth: int) -> Any:
        tf = self.tf

        @tf.function(autograph=False)
        def inner(x: Any, y: Any) -> Any:
            return self.several([x, y], depth - 1), self.module.total + 0.0

        made, state = inner(self.draw.choice(env), self.draw.choice(env))
        return made + state * 0.1

    def mapped(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        rows = tf.stack([self.draw.choice(env) for _ in range(2)])
        if self.draw.random() < 0.5:
            made = tf.vectorized_map(lambda row: tf.tanh(row * 2) + tf.reduce_sum(row), rows)
        else:
            made = tf.map_fn(lambda row: self.several([*env, row], depth - 1), rows)
        return tf.reduce_mean(made, 0)

    def folded(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        dataset = tf.data.Dataset.range(4).filter(lambda n: n % 3 != 1).map(lambda n: n * 2)
        x = self.draw.choice(env)
        return dataset.reduce(
            x, lambda total, n: tf.tanh(total * 0.5 + tf.cast(n, tf.float32))
        ) + self.several([x], depth - 1, 1)

    def gradient(self, env: list[Any], depth: int) -> Any:
        tf = self.tf
        pure = Body(tf, self.draw, self.module, updates=False)
        x = self.draw.choice(env)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(pure.several([x, *env], depth - 1) ** 2)
        of_x, of_rows = tape.gradient(
            y, [x, self.module.rows], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        return tf.tanh(of_x) + tf.tanh(tf.reduce_sum(tf.convert_to_tensor(of_rows), 0))


def save_program(tf: Any, seed: int, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Save the module of a seed; return calls of its signatures with their arguments."""
    draw = random.Random(seed)
    module = tf.Module()
    module.total = tf.Variable([0.1, -0.2, 0.3])
    module.rows = tf.Variable([[0.5, -0.5, 0.25], [0.1, 0.2, -0.3]])
    module.captured = tf.constant([0.9, -0.8, 0.7])
    module.weights = tf.constant(np.float32(np.arange(9).reshape(3, 3) / 9 - 0.4))
    keys = tf.constant(WORDS)
    entries = tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(WORDS), dtype=tf.int64))
    module.table = tf.lookup.StaticHashTable(entries, -1)
    signatures = {}
    for number in range(draw.randint(2, 4)):
        name = ["serving_default", "second", "third", "fourth"][number]
        signatures[name] = signature(tf, draw, module, updates=number > 0)
    tf.saved_model.save(module, folder, signatures=signatures)
    calls = []
    for _ in range(8):
        name = draw.choice(list(signatures))
        values = {key: np.float32([draw.uniform(-1, 1) for _ in range(WIDTH)]) for key in "xy"}
        values["flag"] = np.bool_(draw.random() < 0.5)
        calls.append((name, values))
    return calls


def signature(tf: Any, draw: random.Random, module: Any, *, updates: bool) -> Any:
    """Return a concrete function of two vectors and a flag."""
    body = Body(tf, draw, module, updates=updates)

    def function(x: Any, y: Any, *, flag: Any) -> dict[str, Any]:
        env = [x, y, tf.where(flag, x, y)]
        for _ in range(draw.randint(2, 4)):
            env.append(body.vector(env, DEPTH))
        results = {"last": env[-1], "same": x}
        if draw.random() < 0.5:
            results["word"] = tf.strings.join([tf.strings.as_string(flag), "!"])
        if updates:
            results["total"] = module.total.read_value()
        return results

    vector = tf.TensorSpec([WIDTH], tf.float32)
    made = tf.function(function, autograph=False)
    return made.get_concrete_function(vector, vector, flag=tf.TensorSpec([], tf.bool, name="flag"))
