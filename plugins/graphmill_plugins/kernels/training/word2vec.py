"""Ops of the first word2vec examples: Skipgram and NegTrain.

Semantics: tensorflow/core/kernels/word2vec_kernels.cc. Skipgram gives TensorFlow's examples if no
two words are equally frequent, whose order is not defined there. The negative samples of NegTrain
are not reproducible in TensorFlow either.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import files, kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.random._philox import Philox
from graphmill_plugins.kernels.random._stream import Numbers, numbers_of
from graphmill_plugins.kernels.state.value import initialized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value, Variable

_AHEAD: Final = 3000
"""Number of examples that TensorFlow computes in advance, by which its counters are ahead."""
_SENTENCE: Final = 1000
_UNKNOWN: Final = b"UNK"
_SHARE_OF_WINDOWS: Final = 10  # the least number of words in the text for each word of a window


class _Corpus:
    """The words of a text as indices into its vocabulary, in which 0 represents rare words."""

    def __init__(self, text: bytes, min_count: int) -> None:
        words = text.split()
        frequent = [pair for pair in Counter(words).most_common() if pair[1] >= min_count]
        rest = len(words) - sum(count for _, count in frequent)
        self.words = string_array([_UNKNOWN, *(word for word, _ in frequent)])
        self.counts = np.array([rest, *(count for _, count in frequent)], np.int32)
        numbers = {word: index for index, (word, _) in enumerate(frequent, 1)}
        self.indices = [numbers.get(word, 0) for word in words]

    def keep_probabilities(self, subsample: float) -> list[float]:
        """Return the probability of keeping each word; 1 without subsampling."""
        if subsample <= 0:
            return [1.0] * len(self.counts)
        with np.errstate(all="ignore"):  # a word may have no occurrence
            limit = np.float32(subsample) * np.float32(len(self.indices))
            counts = self.counts.astype(np.float32)
            keep = (np.sqrt(counts / limit) + np.float32(1)) * limit / counts
        probabilities: list[float] = keep.tolist()
        return probabilities


@kernel(
    "Skipgram",
    stateful=True,
    host=True,
    expensive=True,
    effects=("fs.read", "rng"),
    brokered=True,
)
class SkipgramKernel:
    """Draw pairs of a word and a word near it from a text.

    Threads: `_lock` guards the position in the text.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._batch = construction.attr("batch_size")
        self._window = construction.attr("window_size")
        if self._batch < 0 or self._window < 1:
            raise InvalidArgumentError(
                f"batch_size must be at least 0 and window_size at least 1, got {self._batch} and "
                f"{self._window}"
            )
        path = files.as_path(construction.attr("filename"))
        corpus = _Corpus(construction.broker.read_bytes(path), construction.attr("min_count"))
        if len(corpus.indices) < self._window * _SHARE_OF_WINDOWS:
            raise InvalidArgumentError(
                f"the file {path} has {len(corpus.indices)} words, expected at least "
                f"{self._window * _SHARE_OF_WINDOWS} for windows of {self._window} words"
            )
        self._corpus = corpus
        self._kept = corpus.keep_probabilities(construction.attr("subsample"))
        self._random = Numbers(numbers_of(Philox(0, 0, 0)))
        self._lock = Lock()
        self._position = len(corpus.indices)
        self._epoch, self._processed = -1, 0
        self._examples = self._generate()
        self._ahead = [next(self._examples) for _ in range(_AHEAD)]
        self._used = 0

    def __call__(self, ctx: OpKernelContext) -> tuple[Any, ...]:
        """Return vocabulary, counters, and a batch of words with their labels."""
        del ctx
        with self._lock:
            pairs = np.array([self._next() for _ in range(self._batch)], np.int32).reshape(-1, 2)
            epoch, processed = self._epoch, self._processed
        return (
            self._corpus.words,
            self._corpus.counts,
            np.array(len(self._corpus.indices), np.int64),
            np.array(epoch, np.int32),
            np.array(processed, np.int64),
            pairs[:, 0].copy(),
            pairs[:, 1].copy(),
        )

    def _next(self) -> tuple[int, int]:
        pair = self._ahead[self._used]
        self._used += 1
        if self._used == _AHEAD:
            self._ahead = [next(self._examples) for _ in range(_AHEAD)]
            self._used = 0
        return pair

    def _generate(self) -> Iterator[tuple[int, int]]:
        """Yield each word of sampled sentences with the words in a window of random size."""
        while True:
            sentence: list[int] = []
            for center in range(_SENTENCE):
                self._processed += 1
                sentence = sentence or self._sentence()
                reach = 1 + self._random.below(self._window)
                for label in range(max(0, center - reach), min(_SENTENCE, center + reach + 1)):
                    if label != center:
                        yield sentence[center], sentence[label]

    def _sentence(self) -> list[int]:
        """Return the next words of the text, subsampled if they are frequent."""
        sentence: list[int] = []
        indices = self._corpus.indices
        is_sampled = min(self._kept) != 1 or max(self._kept) != 1
        while len(sentence) < _SENTENCE:
            if self._position >= len(indices):
                self._epoch += 1
                self._position = 0
            word = indices[self._position]
            self._position += 1
            if not is_sampled or self._random.unit() <= self._kept[word]:
                sentence.append(word)
        return sentence


@kernel("NegTrain", stateful=True, host=True, expensive=True, effects=("rng", "state"))
class NegTrainKernel:
    """Train embeddings by negative sampling."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._samples = construction.attr("num_negative_samples")
        counts: Sequence[int] = construction.attr("vocab_count")
        self._weights = np.cumsum(np.array(counts, np.float32) ** np.float32(0.75), dtype=float)
        self._random = np.random.default_rng()

    def __call__(
        self,
        ctx: OpKernelContext,
        w_in: Variable,
        w_out: Variable,
        examples: Value,
        labels: Value,
        lr: Value,
    ) -> None:
        """Update both embeddings, example after example.

        Raises:
            FailedPreconditionError: a variable has no value.
            InvalidArgumentError: shapes do not fit, or an example or label is out of range.
        """
        del ctx
        with ExitStack() as locks:
            # A fixed order, so that two ops on the same variables cannot deadlock.
            for _, variable in sorted({id(w): w for w in (w_in, w_out)}.items()):
                locks.enter_context(variable.lock)
            inner, outer = (np.asarray(initialized(w)) for w in (w_in, w_out))
            self._check(inner, outer, examples, labels, lr)
            inner = inner.copy()
            outer = inner if w_in is w_out else outer.copy()
            negatives = self._negatives(len(examples))
            for example, label, samples in zip(
                examples.tolist(), labels.tolist(), negatives, strict=True
            ):
                _train(inner[example], outer, label, samples, np.float32(lr))
            w_in.value, w_out.value = inner, outer

    def _negatives(self, count: int) -> list[list[int]]:
        """Draw the negative samples for each of `count` examples, in proportion to word counts."""
        if self._samples <= 0:
            return [[]] * count
        check_size((count, self._samples), "the samples", itemsize=64)
        drawn = self._random.random((count, self._samples)) * self._weights[-1]
        positions = np.searchsorted(self._weights, drawn, side="right")
        words: list[list[int]] = np.minimum(positions, len(self._weights) - 1).tolist()
        return words

    def _check(self, inner: Value, outer: Value, examples: Value, labels: Value, lr: Value) -> None:
        if inner.ndim != 2 or inner.shape != outer.shape:
            raise InvalidArgumentError(
                "w_in and w_out must be matrices of the same shape, got "
                f"{shape_text(inner.shape)} and {shape_text(outer.shape)}"
            )
        if examples.ndim != 1 or examples.shape != labels.shape or np.ndim(lr):
            raise InvalidArgumentError(
                "examples and labels must be vectors of the same size and lr a scalar, got shapes "
                f"{shape_text(examples.shape)}, {shape_text(labels.shape)} and "
                f"{shape_text(np.shape(lr))}"
            )
        size = len(inner)
        if size != len(self._weights):
            raise InvalidArgumentError(
                f"vocab_count has {len(self._weights)} elements, but the embeddings {size} rows"
            )
        for name, values in (("examples", examples), ("labels", labels)):
            if ((values < 0) | (values >= size)).any():
                raise InvalidArgumentError(f"{name} has values that are not in [0, {size})")


def _train(row: Value, outer: Value, label: int, samples: list[int], lr: Any) -> None:
    """Update one row of the inner embedding, and the outer rows of its label and samples."""
    one = np.float32(1)
    with np.errstate(over="ignore"):
        step = one / (np.exp(row @ outer[label]) + one) * lr
        change = outer[label] * step
        outer[label] += row * step
        for sample in cancellable(samples):
            if sample != label:
                step = -one / (np.exp(-(row @ outer[sample])) + one) * lr
                change += outer[sample] * step
                outer[sample] += row * step
        row += change
