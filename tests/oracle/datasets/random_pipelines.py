"""Random pipelines of tf.data from a seed, whose elements are a vector and a number."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_STEPS = 5


class Pipeline:
    """Draws sources and steps. An element is a dict of a `number` and a `row` of numbers."""

    def __init__(self, tf: Any, seed: int) -> None:
        self.tf = tf
        self.draw = random.Random(seed)

    def dataset(self, steps: int, depth: int = 1) -> Any:
        """Return a dataset after a number of random steps."""
        made = self.source()
        kinds: list[Callable[[Any, int], Any]] = [
            self.map, self.map, self.filter, self.shuffle, self.take, self.window, self.cache,
            self.batched_again, self.padded, self.grouped, self.scanned, self.options, self.repeat,
            self.enumerated, self.unique, self.ragged, self.failing, self.unbatched, self.sparse,
            self.texts, self.rebatched, self.counted, self.optional, self.nested, self.parsed,
        ]  # fmt: skip
        if depth:
            kinds += [self.interleave, self.flat, self.joined, self.zipped, self.chosen]
        for _ in range(steps):
            made = self.draw.choice(kinds)(made, depth)
        return made

    def source(self) -> Any:
        tf, count = self.tf, self.draw.randrange(9)
        numbers = tf.data.Dataset.range(count)
        return self.draw.choice(
            [
                lambda: numbers.map(lambda n: {"number": n, "row": tf.range(n % 4)}),
                lambda: tf.data.Dataset.from_tensor_slices(
                    {"number": list(range(5)), "row": [[n, n + 1] for n in range(5)]}
                ).map(lambda e: {k: tf.cast(v, tf.int64) for k, v in e.items()}),
                lambda: (
                    tf.data.Dataset.random(seed=self.draw.randrange(1, 9))
                    .take(count)
                    .map(lambda n: {"number": n % 9, "row": tf.fill([n % 3], n % 5)})
                ),
                lambda: tf.data.Dataset.from_tensors({"number": 3, "row": [1, 2]}).map(
                    lambda e: {k: tf.cast(v, tf.int64) for k, v in e.items()}
                ),
            ]
        )()

    def workers(self) -> Any:
        return self.draw.choice([None, None, 2, self.tf.data.AUTOTUNE])

    def map(self, made: Any, depth: int) -> Any:
        del depth
        tf, draw = self.tf, self.draw
        by = draw.randrange(1, 5)
        function = draw.choice(
            [
                lambda e: {"number": e["number"] * by, "row": e["row"] + e["number"]},
                lambda e: {"number": tf.reduce_sum(e["row"]), "row": e["row"][:by]},
                lambda e: {"row": tf.concat([e["row"], [e["number"]]], 0), "number": e["number"]},
                lambda e: {
                    "number": tf.cond(
                        e["number"] > by, lambda: e["number"] - by, lambda: e["number"] * 0 + by
                    ),
                    "row": tf.reverse(e["row"], [0]),
                },
                lambda e: {
                    "number": tf.while_loop(
                        lambda i: i < by, lambda i: [i + 2], [e["number"] % 3]
                    )[0],
                    "row": tf.unique(e["row"])[0],
                },
            ]
        )  # fmt: skip
        return made.map(function, num_parallel_calls=self.workers(), deterministic=True)

    def filter(self, made: Any, depth: int) -> Any:
        del depth
        by = self.draw.randrange(2, 4)
        return self.draw.choice(
            [
                lambda: made.filter(lambda e: self.tf.not_equal(e["number"] % by, 0)),
                lambda: made.filter(lambda e: self.tf.size(e["row"]) > by - 2),
                lambda: made.take_while(lambda e: e["number"] < by * 4),
            ]
        )()

    def shuffle(self, made: Any, depth: int) -> Any:
        del depth
        return made.shuffle(
            self.draw.randrange(1, 8),
            seed=self.draw.randrange(1, 9),
            reshuffle_each_iteration=self.draw.random() < 0.5,
        )

    def take(self, made: Any, depth: int) -> Any:
        del depth
        count = self.draw.randrange(4)
        return self.draw.choice(
            [
                lambda: made.take(count + 2),
                lambda: made.skip(count),
                lambda: made.shard(2, count % 2),
                lambda: made.prefetch(count),
                lambda: made.take(-1),
            ]
        )()

    def window(self, made: Any, depth: int) -> Any:
        del depth
        tf, draw = self.tf, self.draw
        windows = made.window(
            draw.randrange(1, 4),
            draw.choice([None, 1, 2]),
            draw.randrange(1, 3),
            drop_remainder=draw.random() < 0.5,
        )

        def joined(window: Any) -> Any:
            numbers = window["number"].batch(9)
            rows = window["row"].flat_map(tf.data.Dataset.from_tensor_slices).batch(99)
            return tf.data.Dataset.zip({"numbers": numbers, "row": rows})

        return windows.flat_map(joined).map(
            lambda e: {"number": tf.reduce_sum(e["numbers"]), "row": e["row"]}
        )

    def cache(self, made: Any, depth: int) -> Any:
        del depth
        return made.cache()

    def batched_again(self, made: Any, depth: int) -> Any:
        del depth
        size = self.draw.randrange(1, 4)
        return (
            made.map(lambda e: e["number"])
            .batch(size, drop_remainder=self.draw.random() < 0.3)
            .map(lambda rows: {"number": self.tf.reduce_max(rows), "row": rows})
        )

    def padded(self, made: Any, depth: int) -> Any:
        del depth
        tf = self.tf
        fill = {"number": tf.constant(0, tf.int64), "row": tf.constant(-1, tf.int64)}
        shapes = {"number": [], "row": [self.draw.choice([None, 12])]}
        made = made.map(lambda e: {"number": e["number"], "row": e["row"][:12]})
        batches = made.padded_batch(self.draw.randrange(1, 4), shapes, fill)
        return batches.map(
            lambda e: {"number": tf.reduce_sum(e["number"]), "row": tf.reshape(e["row"], [-1])}
        )

    def grouped(self, made: Any, depth: int) -> Any:
        del depth
        tf, draw = self.tf, self.draw
        size = draw.randrange(1, 4)
        if draw.random() < 0.4:
            made = made.bucket_by_sequence_length(
                lambda e: tf.size(e["row"]), [2, 4], [2, size, 3], pad_to_bucket_boundary=False
            )
        else:
            made = made.group_by_window(
                lambda e: tf.cast(e["number"] % 2, tf.int64),
                lambda key, rows: rows.padded_batch(size),
                window_size=size,
            )
        return made.map(
            lambda e: {"number": tf.reduce_sum(e["number"]), "row": tf.reshape(e["row"], [-1])}
        )

    def scanned(self, made: Any, depth: int) -> Any:
        del depth
        tf = self.tf

        def step(total: Any, e: Any) -> Any:
            return total + e["number"], {"number": total, "row": e["row"]}

        # AutoGraph would take the source of the method for that of the function in it.
        return made.scan(tf.constant(0, tf.int64), tf.autograph.experimental.do_not_convert(step))

    def options(self, made: Any, depth: int) -> Any:
        del depth
        options = self.tf.data.Options()
        options.deterministic = True
        options.threading.private_threadpool_size = self.draw.choice([0, 2])
        options.experimental_optimization.map_fusion = self.draw.random() < 0.5
        options.autotune.enabled = self.draw.random() < 0.5
        return made.with_options(options)

    def repeat(self, made: Any, depth: int) -> Any:
        del depth
        count = self.draw.randrange(3)
        if not count:
            # TensorFlow's optimizer refuses to repeat what is shuffled zero times.
            return made.take(1).repeat(0)
        return made.repeat(count)

    def enumerated(self, made: Any, depth: int) -> Any:
        del depth
        return made.enumerate(5).map(lambda i, e: {"number": e["number"] + i, "row": e["row"]})

    def unique(self, made: Any, depth: int) -> Any:
        del depth
        return made.map(lambda e: e["number"]).unique().map(lambda n: {"number": n, "row": [n, n]})

    def ragged(self, made: Any, depth: int) -> Any:
        del depth
        tf = self.tf
        batches = made.map(self.loose).map(lambda e: e["row"]).ragged_batch(2)
        return batches.map(
            lambda rows: {"number": tf.cast(rows.nrows(), tf.int64), "row": rows.flat_values}
        )

    def failing(self, made: Any, depth: int) -> Any:
        """Let some elements fail; drop them, or end with the error."""
        del depth
        tf, draw = self.tf, self.draw
        by = draw.randrange(2, 5)

        def step(e: Any) -> Any:
            check = tf.debugging.assert_none_equal(e["number"] % 7, tf.constant(by, tf.int64))
            with tf.control_dependencies([check]):
                return {"number": tf.identity(e["number"]), "row": e["row"]}

        made = made.map(tf.autograph.experimental.do_not_convert(step), self.workers())
        return made.ignore_errors() if draw.random() < 0.7 else made

    def unbatched(self, made: Any, depth: int) -> Any:
        del depth
        tf, draw = self.tf, self.draw
        pairs = made.map(lambda e: {"number": e["number"], "row": tf.stack([e["number"]] * 2)})
        batches = pairs.batch(draw.randrange(1, 4), draw.random() < 0.3, self.workers())
        return batches.unbatch()

    def sparse(self, made: Any, depth: int) -> Any:
        """Batch sparse rows."""
        del depth
        tf, draw = self.tf, self.draw
        rows = made.map(
            lambda e: tf.sparse.from_dense(tf.one_hot(e["number"] % 5, 6, dtype=tf.int64))
        )
        batches = rows.batch(draw.randrange(1, 4))
        if draw.random() < 0.3:
            batches = batches.unbatch().batch(2)
        return batches.map(
            lambda x: {"number": tf.reduce_sum(x.values), "row": tf.reshape(x.indices, [-1])}
        )

    def texts(self, made: Any, depth: int) -> Any:
        """Write numbers as texts, and read them again."""
        del depth
        tf, draw = self.tf, self.draw
        words = made.map(
            lambda e: tf.strings.reduce_join(tf.strings.as_string(e["row"]), separator=" ")
        )
        if draw.random() < 0.5:
            words = words.batch(2).map(lambda texts: tf.strings.reduce_join(texts, separator=" "))
        return words.map(
            lambda text: {
                "number": tf.cast(tf.strings.length(text), tf.int64),
                "row": tf.strings.to_number(tf.strings.split(text), tf.int64),
            }
        )

    def rebatched(self, made: Any, depth: int) -> Any:
        del depth
        tf, draw = self.tf, self.draw
        sizes = draw.choice([2, [1, 2], [2, 0, 1]])
        numbers = made.map(lambda e: e["number"]).batch(draw.randrange(1, 4))
        return numbers.rebatch(sizes, drop_remainder=draw.random() < 0.5).map(
            lambda row: {"number": tf.cast(tf.size(row), tf.int64), "row": row}
        )

    def counted(self, made: Any, depth: int) -> Any:
        """Add the size of another pipeline, and sums over it."""
        del depth
        tf = self.tf
        # TensorFlow begins a shuffle that the function captures with its seed at each call.
        other = self.source().take(3)
        size = other.cardinality()

        def step(e: Any) -> Any:
            total = other.reduce(e["number"], lambda n, one: n + one["number"])
            return {"number": total, "row": e["row"] + size}

        return made.map(tf.autograph.experimental.do_not_convert(step))

    def optional(self, made: Any, depth: int) -> Any:
        """Take elements through optional values."""
        del depth
        tf, by = self.tf, self.draw.randrange(2, 4)
        optional = tf.experimental.Optional

        def step(e: Any) -> Any:
            some = tf.cond(
                tf.equal(e["number"] % by, 0),
                lambda: optional.from_value(e["number"]),
                lambda: optional.empty(tf.TensorSpec([], tf.int64)),
            )
            value = tf.cond(some.has_value(), some.get_value, lambda: tf.constant(-5, tf.int64))
            return {"number": value, "row": e["row"]}

        return made.map(tf.autograph.experimental.do_not_convert(step))

    def nested(self, made: Any, depth: int) -> Any:
        """Shuffle and batch pairs of nested structures."""
        del depth
        tf, draw = self.tf, self.draw
        pairs = made.map(lambda e: ((e["number"], {"a": e["number"] * 2}), e["number"] + 1))
        pairs = pairs.shuffle(3, seed=draw.randrange(1, 9)).batch(2, drop_remainder=True)
        return pairs.map(
            lambda first, last: {
                "number": tf.reduce_sum(first[1]["a"]),
                "row": tf.concat([first[0], last], 0),
            }
        )

    def parsed(self, made: Any, depth: int) -> Any:
        """Serialize rows, and parse them again."""
        del depth
        tf = self.tf
        texts = made.map(lambda e: tf.io.serialize_tensor(e["row"]), self.workers())
        return texts.map(
            lambda text: {
                "number": tf.cast(tf.strings.length(text), tf.int64),
                "row": tf.ensure_shape(tf.io.parse_tensor(text, tf.int64), [None]),
            }
        )

    def interleave(self, made: Any, depth: int) -> Any:
        tf, draw = self.tf, self.draw
        inner = self.dataset(1, depth - 1)

        def function(e: Any) -> Any:
            return inner.map(lambda i: {"number": i["number"] + e["number"], "row": i["row"]})

        return made.take(5).interleave(
            function,
            cycle_length=draw.randrange(1, 4),
            block_length=draw.randrange(1, 3),
            num_parallel_calls=draw.choice([None, 2, tf.data.AUTOTUNE]),
            deterministic=True,
        )

    def flat(self, made: Any, depth: int) -> Any:
        del depth
        tf = self.tf
        return made.flat_map(
            lambda e: tf.data.Dataset.from_tensor_slices(e["row"]).map(
                lambda n: {"number": n + e["number"], "row": e["row"]}
            )
        )

    def joined(self, made: Any, depth: int) -> Any:
        other = self.dataset(1, depth - 1)
        return made.map(self.loose).concatenate(other.map(self.loose))

    def loose(self, e: Any) -> Any:
        """Return an element whose row has an unknown length, also for shape inference."""
        return {"number": e["number"], "row": self.tf.boolean_mask(e["row"], e["row"] < 10**6)}

    def zipped(self, made: Any, depth: int) -> Any:
        other = self.dataset(1, depth - 1)
        return self.tf.data.Dataset.zip((made, other)).map(
            lambda a, b: {"number": a["number"] - b["number"], "row": b["row"]}
        )

    def chosen(self, made: Any, depth: int) -> Any:
        tf, draw = self.tf, self.draw
        sets = [made.map(self.loose), self.dataset(1, depth - 1).map(self.loose)]
        if draw.random() < 0.5:
            choice = tf.data.Dataset.range(9).map(lambda n: n % 2)
            return tf.data.Dataset.choose_from_datasets(sets, choice, draw.random() < 0.5)
        return tf.data.Dataset.sample_from_datasets(
            sets, [0.4, 0.6], seed=3, stop_on_empty_dataset=draw.random() < 0.5
        )


def random_pipeline(tf: Any, seed: int) -> Any:
    """Return the pipeline of a seed, and the random numbers that follow."""
    pipeline = Pipeline(tf, seed)
    made = pipeline.dataset(pipeline.draw.randint(1, MAX_STEPS))
    return made.take(60), pipeline.draw
