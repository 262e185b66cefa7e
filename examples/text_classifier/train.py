"""Train a classifier of sentences whose preprocessing is part of the graph, and save it.

    python examples/text_classifier/train.py FOLDER
    graphmill run FOLDER text='["what a lovely film"]'

The SavedModel takes texts: lower case, punctuation, words and their hashes are computed by nodes,
so a program that serves it needs no Python code of the model's. The sentences are generated.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np

import graphmill
from graphmill import functions as F
from graphmill import ops

if TYPE_CHECKING:
    from pathlib import Path

BUCKETS = 512
SIZE = 8
GOOD = ("lovely", "great", "brilliant", "charming", "superb", "funny")
BAD = ("awful", "boring", "dreadful", "dull", "tedious", "clumsy")
FRAMES = ("What a {} film!", "The plot is {}.", "I found it {}, honestly", "{}. Simply {}...")


def sentences(count: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Return sentences, and a label for each: 1 for praise, 0 for blame."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    texts = []
    for label in labels:
        words = rng.choice(GOOD if label else BAD, 2)
        texts.append(str(rng.choice(FRAMES)).format(*words))
    return texts, labels.astype(np.float32)


def mean_embedding(texts: graphmill.Tensor, table: graphmill.Variable) -> graphmill.Tensor:
    """Return the mean of the embeddings of the words of each text, float32 `[n, SIZE]`."""
    lower = ops.string.string_lower(texts)
    plain = ops.string.regex_replace(lower, "[^a-z ]", "")
    words = ops.string.string_split_v2(plain, "")
    ids = ops.string.string_to_hash_bucket_fast(words.values, num_buckets=BUCKETS)
    rows = F.cast(words.indices[:, 0], "int32")
    # One more row, which no word has: a text without words is zero.
    sums = ops.math.unsorted_segment_sum(F.gather(table, ids), rows, F.size(texts))
    counts = ops.math.unsorted_segment_sum(F.ones_like(ids), rows, F.size(texts))
    return F.div_no_nan(sums, F.expand_dims(F.cast(counts, "float32"), 1))


def train(folder: str | Path, steps: int = 150) -> float:
    """Train the classifier and save it; return its accuracy on sentences it has not seen."""
    texts, labels = sentences(256, seed=1)
    rng = np.random.default_rng(0)
    graph = graphmill.Graph()
    with graph.as_default():
        text = F.placeholder("string", [None], name="text")
        label = F.placeholder("float32", [None], name="label")
        table = graphmill.Variable(rng.normal(0, 0.1, (BUCKETS, SIZE)).astype(np.float32), name="e")
        weights = graphmill.Variable(rng.normal(0, 0.1, (SIZE, 1)).astype(np.float32), name="w")
        logits = F.squeeze(F.matmul(mean_embedding(text, table), weights), [1])
        praise = ops.math.sigmoid(logits, name="praise")
        loss = F.reduce_mean(F.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
        step = graphmill.train.AdamOptimizer(0.05).minimize(loss)
        start = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(start)
        for _ in range(steps):
            session.run(step, {text: texts, label: labels})
        graphmill.saved_model.simple_save(session, folder, {"text": text}, {"praise": praise})
    unseen, answers = sentences(200, seed=2)
    model = graphmill.saved_model.load(folder)
    scores = np.asarray(model.signatures["serving_default"](text=unseen)["praise"])
    return float(((scores > 0.5) == (answers > 0.5)).mean())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: train.py FOLDER")
    print(f"{train(sys.argv[1]):.1%} of the sentences are classified correctly")
