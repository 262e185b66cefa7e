"""Random graphs of TensorFlow 1.x, saved as SavedModels with the calls of their signatures.

A graph has loops and branches of primitives or of functions, reads and updates of variables, a
table that is filled from a file, a sparse argument and a sparse result.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.oracle.graphs.gradient_programs import DEPTH, SIZE, Builder, builder_start

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS = ["a", "b", "c", "?"]


@contextlib.contextmanager
def control_flow(tf: Any, *, functions: bool) -> Iterator[None]:
    """Have TensorFlow build control flow of functions, or of primitives."""
    v1 = tf.compat.v1
    was_on = v1.control_flow_v2_enabled()
    (v1.enable_control_flow_v2 if functions else v1.disable_control_flow_v2)()
    try:
        yield
    finally:
        (v1.enable_control_flow_v2 if was_on else v1.disable_control_flow_v2)()


def save_session_model(tf: Any, seed: int, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Save the graph of a seed in `folder/model`; return calls with arguments by tensor name."""
    builder = Builder(tf, seed)
    draw, v1 = builder.draw, tf.compat.v1
    words = Path(folder) / "words.txt"
    words.write_text("\n".join(WORDS[:3]))
    with control_flow(tf, functions=draw.random() < 0.3), tf.Graph().as_default() as graph:
        signatures = add_signatures(tf, builder, str(words))
        with v1.Session(graph=graph) as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            session.run(v1.tables_initializer())
            made = v1.saved_model.Builder(folder + "/model")
            made.add_meta_graph_and_variables(
                session,
                ["serve"],
                {name: v1.saved_model.predict_signature_def(*one) for name, one in signatures},
                assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
                main_op=v1.tables_initializer(),
                strip_default_attrs=draw.random() < 0.5,
                clear_devices=draw.random() < 0.5,
            )
            made.save(as_text=draw.random() < 0.2)
    words.unlink()  # the model has its own
    values = np.random.RandomState(seed)
    names = [name for name, _ in signatures]
    return [(draw.choice(names), arguments(values)) for _ in range(6)]


def add_signatures(tf: Any, builder: Builder, words: str) -> list[tuple[str, Any]]:
    """Add nodes to the default graph; return the inputs and outputs of each signature by name."""
    draw, v1 = builder.draw, tf.compat.v1
    x = v1.placeholder(tf.float64, [SIZE], name="x")
    w = v1.placeholder_with_default(np.ones(SIZE), [SIZE], name="w")
    word = v1.placeholder(tf.string, [None], name="word")
    pairs = v1.sparse_placeholder(tf.float64, [SIZE, 2], name="pairs")
    builder_start(builder, tf)
    rows = tf.lookup.TextFileInitializer(
        words,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    table = tf.lookup.StaticHashTable(rows, -1)
    env = [x, w]
    for _ in range(draw.randint(2, 5)):
        env.append(builder.vector(env, DEPTH))
    sums = tf.sparse.reduce_sum(pairs, 1) + env[-1]
    signatures = [
        ("serving_default", ({"x": x, "w": w}, {"y": env[-1], "z": draw.choice(env)})),
        ("words", ({"word": word, "x": x}, {"row": table.lookup(word), "y": env[2]})),
        ("sparse", ({"pairs": pairs, "x": x, "w": w}, {"sums": sums, "twice": pairs * 2.0})),
    ]
    return [*signatures, ("update", ({"x": x}, {"total": updated(tf, draw, x)}))]


def updated(tf: Any, draw: Any, x: Any) -> Any:
    """Return a variable after an update, in a branch or a loop."""
    v1 = tf.compat.v1
    resource = v1.control_flow_v2_enabled() or draw.random() < 0.4  # functions take no references
    total = v1.Variable(np.zeros(SIZE), name="total", use_resource=resource)

    def update(y: Any) -> Any:
        # An update that depends on no variable of a loop might run after the loop.
        with tf.control_dependencies([v1.assign_add(total, tf.tanh(y))]):
            return tf.identity(y)

    kept = draw.choice(
        [
            lambda: update(x),
            lambda: v1.cond(tf.reduce_sum(x) > 0, lambda: update(x), lambda: x * 2.0),
            lambda: v1.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, update(y)), [0, x])[1],
        ]
    )()
    with tf.control_dependencies([kept]):
        return total.read_value() + kept


def arguments(values: Any) -> dict[str, Any]:
    """Return an array, or the parts of a sparse tensor, for each input."""
    places = np.argwhere(values.random_sample([SIZE, 2]) < 0.5)
    return {
        "x": values.uniform(-1, 1, SIZE),
        "w": values.uniform(-1, 1, SIZE),
        "word": values.choice(WORDS, values.randint(4)).astype(object),
        "pairs": (places, values.uniform(-1, 1, len(places)), np.array([SIZE, 2])),
    }
