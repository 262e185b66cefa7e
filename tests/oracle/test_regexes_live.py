"""Random patterns, rewrite strings and texts: regular expressions match as TensorFlow's do."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

_ATOMS = (
    rb"""
a b . ab [ab] [^a] \d \w \s \pL \PL ^ $ \b \B \A \z \x{e9} [[:alpha:]] \Qa.\E \p{Greek} \C (?i)A
(?s). (?m)$ (?U)a+ a{2} x* (?:) <br -> - \D [a-c]+ [^b] \xc3\xa9 [\xc3\xa9-\xc3\xbc]
""".replace(rb"\xc3\xa9", "é".encode())
    .replace(rb"\xc3\xbc", "ü".encode())
    .split()
)
_INVALID = [b"[b-a]", b"\\", b"*", b"(?=a)", rb"\1", b"a{1001}", b"[", b")", b"a**"]
_REPEATS = [b"", b"", b"", b"*", b"+", b"?", b"*?", b"+?", b"{1,2}", b"{0,}"]
_CHARACTERS = [b"a", b"b", b"A", b" ", b"\n", b"1", b"_", b"\0", b"<br", b"a.", b"-", b"ab"]
_CHARACTERS += [text.encode() for text in ("é", "\u03b1", "\U0001f600")]
_CHARACTERS += [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]  # not UTF-8
_REWRITES = [b"", b"x", b"xy", b"\xff", b"\\"]
_REWRITES += [rb"\0", rb"<\1>", rb"\2\1", rb"\\", rb"\z", rb"a\zb\9", rb"\0\0"]


def _pattern(rng: random.Random, depth: int = 0) -> bytes:
    parts = []
    for _ in range(rng.randint(0 if depth else 1, 4)):
        if depth < 3 and rng.random() < 0.25:
            form = rng.choice([b"(%s)", b"(%s)", b"(?:%s)", b"(%s|%s)", b"%s|%s"])
            inner = [_pattern(rng, depth + 1) for _ in range(form.count(b"%s"))]
            atom = form % tuple(inner)
        else:
            atom = rng.choice(_ATOMS if rng.random() < 0.98 else _INVALID)
        parts.append(atom + rng.choice(_REPEATS))
    return b"".join(parts)


def _texts(rng: random.Random) -> list[bytes]:
    return [b"".join(rng.choices(_CHARACTERS, k=rng.randint(0, 8))) for _ in range(8)]


def _theirs(op: str, **inputs: Any) -> Any:
    try:
        return getattr(tf.raw_ops, op)(**inputs).numpy().tolist()
    except tf.errors.InvalidArgumentError as error:
        return _reason(error.message)


def _ours(session: graphmill.Session, fetch: Any, feeds: dict[Any, Any]) -> Any:
    try:
        return session.run(fetch, feeds).tolist()
    except errors.InvalidArgumentError as error:
        return _reason(error.message)


def _reason(message: str) -> str:
    return message.partition("error: ")[2].partition(" [Op:")[0]


@pytest.mark.parametrize("seed", range(4))
def test_random_patterns_match_as_in_tensorflow(seed: int) -> None:
    rng = random.Random(seed)
    graph = graphmill.Graph()
    with graph.as_default():
        string = graphmill.as_dtype("string")
        x = graph.placeholder(string, [None])
        pattern, rewrite = graph.placeholder(string, []), graph.placeholder(string, [])
        matches = ops.string.regex_full_match(x, pattern)
        first, every = (
            ops.string.regex_replace(x, pattern, rewrite, replace_global=is_global)
            for is_global in (False, True)
        )
    refused = 0
    with graphmill.Session(graph=graph) as session:
        for _ in range(1000):
            value, text, new = _texts(rng), _pattern(rng), rng.choice(_REWRITES)
            feeds = {x: np.array(value, object), pattern: text, rewrite: new}
            inputs = {"input": value, "pattern": text}
            expected = _theirs("RegexFullMatch", **inputs)
            assert _ours(session, matches, feeds) == expected, (text, value)
            refused += isinstance(expected, str)
            for fetch, is_global in ((first, False), (every, True)):
                expected = _theirs("RegexReplace", **inputs, rewrite=new, replace_global=is_global)
                assert _ours(session, fetch, feeds) == expected, (text, value, new, is_global)
    assert 20 < refused < 500
