"""Skipgram returns TensorFlow's examples, and NegTrain moves embeddings as expected."""

from __future__ import annotations

import threading
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("ab", "cd", "efg", "h")
TEXT = " ".join(WORDS[0 if k % 2 else 1 if k % 3 else 2 if k % 5 else 3] for k in range(300))


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    file = tmp_path / "text"
    file.write_text(f"{TEXT}\n", encoding="utf-8")
    return file


def skipgram(file: Path, steps: int, **attrs: float) -> list[Any]:
    """Return a node's outputs in each step; the op exists in old graphs only."""
    graph_def = proto.GraphDef()
    graph_def.versions.producer = 18
    node = graph_def.node.add(name="y", op="Skipgram")
    node.attr["filename"].s = str(file).encode()
    for name, value in attrs.items():
        if isinstance(value, float):
            node.attr[name].f = value
        else:
            node.attr[name].i = value
    with graphmill.Session(graph=graphmill.Graph.from_graph_def(graph_def)) as session:
        return [session.run([f"y:{index}" for index in range(7)]) for _ in range(steps)]


def test_examples_without_subsampling_are_tensorflows(text_file: Path) -> None:
    first, second = skipgram(text_file, 2, batch_size=7, window_size=3, min_count=2, subsample=0.0)
    assert first[0].tolist() == [b"UNK", b"ab", b"cd", b"efg", b"h"]
    assert first[1].tolist() == [0, 150, 100, 40, 10]
    assert [int(number) for number in first[2:5]] == [300, 3, 745]
    assert first[5].tolist() == [4, 4, 1, 1, 1, 1, 2]
    assert first[6].tolist() == [1, 2, 4, 2, 1, 2, 4]
    assert second[5].tolist() == [2, 2, 2, 1, 1, 1, 1]
    assert second[6].tolist() == [1, 1, 2, 4, 1, 2, 2]


def test_examples_with_subsampling_and_rare_words_are_tensorflows(text_file: Path) -> None:
    """With subsampling and rare words, counters and checksums equal TensorFlow's."""
    steps = skipgram(text_file, 3, batch_size=2000, window_size=2, min_count=50, subsample=0.01)
    assert steps[0][0].tolist() == [b"UNK", b"ab", b"cd"]
    assert [[int(number) for number in step[3:5]] for step in steps] == [
        [34, 1002],
        [51, 2005],
        [51, 2992],
    ]
    checksums = [zlib.crc32(np.array([step[5], step[6]], "<i4").tobytes()) for step in steps]
    assert checksums == [3934442321, 512682274, 530694301]


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"batch_size": 7, "window_size": 31}, "300 words, expected at least 310"),
        ({"batch_size": 7, "window_size": 0}, "window_size at least 1"),
        ({"batch_size": -1}, "batch_size must be at least 0"),
    ],
)
def test_attrs_that_do_not_fit_are_refused(
    text_file: Path, attrs: dict[str, int], reason: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=reason):
        skipgram(text_file, 1, **attrs)


def test_a_missing_text_is_reported(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError):
        skipgram(tmp_path / "none", 1, batch_size=1)


class Row:
    """A substitute for `Variable`: a value and a lock."""

    def __init__(self, value: Any) -> None:
        self.name = "v"
        self.value = value
        self.lock = threading.Lock()


def train(bind_kernel: Any, ctx: Any, *, label: int, samples: int) -> tuple[Any, Any]:
    """Train row 0 of an embedding and return both embeddings."""
    inner, outer = Row(np.ones((3, 2), np.float32)), Row(np.zeros((3, 2), np.float32))
    inputs = [np.array([0], np.int32), np.array([label], np.int32), np.float32(0.5)]
    attrs = {"vocab_count": [0, 8, 0], "num_negative_samples": samples}
    kernel = bind_kernel("NegTrain", inner.value, outer.value, *inputs, **attrs)
    kernel.compute(ctx, inner, outer, *inputs)
    return inner.value, outer.value


def test_negative_samples_are_words_of_the_vocabulary(bind_kernel: Any, ctx: Any) -> None:
    _, outer = train(bind_kernel, ctx, label=2, samples=1)
    # The label moves towards the row, the only word that can be drawn away from it.
    np.testing.assert_allclose(outer, [[0, 0], [-0.25, -0.25], [0.25, 0.25]])


def test_a_negative_sample_that_is_the_label_does_not_count(bind_kernel: Any, ctx: Any) -> None:
    _, outer = train(bind_kernel, ctx, label=1, samples=5)
    np.testing.assert_allclose(outer, [[0, 0], [0.25, 0.25], [0, 0]])


def test_labels_out_of_range_are_refused(bind_kernel: Any, ctx: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="labels has values"):
        train(bind_kernel, ctx, label=3, samples=0)
