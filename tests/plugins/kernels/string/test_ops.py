"""String kernels: hashes, formats, splits, Unicode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.steps.step_runner import running
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._tensor_text import format_tensor, summarize
from graphmill_plugins.kernels.string._sip_hash import sip_hashes
from graphmill_plugins.kernels.string.hash import fingerprint64

if TYPE_CHECKING:
    from collections.abc import Callable


def strings(*items: str) -> Any:
    return string_array([item.encode() for item in items])


def test_buckets_are_those_of_tensorflows_manual(call: Callable[..., Any]) -> None:
    got = call("StringToHashBucketFast", strings("Hello", "TensorFlow", "2.x"), num_buckets=3)
    assert got.tolist() == [0, 2, 2]


def test_every_length_has_its_hash() -> None:
    """Strings of every length have the right hash; the algorithm changes at some lengths."""
    hashes = {fingerprint64(bytes(range(size))) for size in range(200)}
    assert len(hashes) == 200
    assert all(0 <= value < 1 << 64 for value in hashes)


def test_sip_hash_returns_the_vector_of_its_authors() -> None:
    """SipHash returns the test vector of its paper: key 00..0f, message 00..0e."""
    low, high = (int.from_bytes(bytes(range(start, start + 8)), "little") for start in (0, 8))
    for count in (1, 9):  # one by one, and all at once
        found = sip_hashes([bytes(range(15))] * count, low, high)
        assert found.tolist() == [0xA129CA6149BE45E5] * count


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (np.arange(5, dtype=np.float32) / 3, 3, "0 0.333333343 0.666666687..."),
        (np.arange(2) / 3, 3, "0 0.33333333333333331"),
        (np.arange(6).reshape(2, 3), 3, "[0 1 2]..."),
        (np.arange(12).reshape(2, 3, 2), 5, "[[0 1][2 3][4...]]..."),
        (np.arange(6).reshape(2, 3), -1, "[0 1 2][3 4 5]"),
        (strings("a", 'b"'), 3, 'a b\\"'),
        (np.array(True), 3, "1"),
        (np.zeros((2, 0)), 3, ""),
        (np.array(5), 0, "..."),
    ],
)
def test_summaries_are_tensorflow_s(value: Any, limit: int, text: str) -> None:
    assert summarize(value, limit) == text


@pytest.mark.parametrize(
    ("value", "ends", "text"),
    [
        (np.arange(10), 3, "[0 1 2 ... 7 8 9]"),
        (np.arange(6).reshape(2, 3), 3, "[[0 1 2]\n [3 4 5]]"),
        (np.arange(8).reshape(2, 2, 2), 3, "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"),
        (strings("a", "é"), 3, '["a" "é"]'),
        (np.array(1.5), 3, "1.5"),
    ],
)
def test_formats_are_tensorflow_s(value: Any, ends: int, text: str) -> None:
    assert format_tensor(value, ends) == text


def test_numbers_print_as_in_c(call: Callable[..., Any]) -> None:
    value = np.array([1 / 3, -2, np.nan], np.float32)
    got = call("AsString", value, width=9, fill="0", precision=2)
    assert got.tolist() == [b"000000.33", b"-00002.00", b"      nan"]


@pytest.mark.parametrize("text", ["1_0", "", "1.5x", "1d3", "- 1", "nan(1)"])
def test_invalid_number_is_refused(call: Callable[..., Any], text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="could not correctly convert"):
        call("StringToNumber", strings(text), out_type="float32")


def test_integers_must_fit(call: Callable[..., Any]) -> None:
    assert call("StringToNumber", strings(" -7\n"), out_type="int32").tolist() == [-7]
    with pytest.raises(errors.InvalidArgumentError):
        call("StringToNumber", strings("99999999999"), out_type="int32")


def test_joining_broadcasts_scalars(call: Callable[..., Any]) -> None:
    got = call("StringJoin", [strings("a", "b"), np.array(b"z", object)], separator="-")
    assert got.tolist() == [b"a-z", b"b-z"]


def test_splitting_at_white_space_keeps_the_rest(call: Callable[..., Any]) -> None:
    indices, values, shape = call(
        "StringSplitV2", strings(" a b  c "), np.array(b"", object), maxsplit=1
    )
    assert values.tolist() == [b"a", b"b  c "]
    assert indices.tolist() == [[0, 0], [0, 1]]
    assert shape.tolist() == [1, 2]


def test_substrings_count_characters(call: Callable[..., Any]) -> None:
    got = call("Substr", strings("héllo"), np.int32(1), np.int32(2), unit="UTF8_CHAR")
    assert got.tolist() == ["él".encode()]
    with pytest.raises(errors.InvalidArgumentError, match="pos 9 out of range"):
        call("Substr", strings("abc"), np.int32(9), np.int32(2))


def test_malformed_text_is_replaced_piece_by_piece(call: Callable[..., Any]) -> None:
    value = string_array([b"a\xffb", b"\xe2\x82"])
    splits, codes, offsets = call(
        "UnicodeDecodeWithOffsets", value, input_encoding="UTF-8", errors="replace"
    )
    assert splits.tolist() == [0, 3, 4]
    assert codes.tolist() == [97, 0xFFFD, 98, 0xFFFD]
    assert offsets.tolist() == [0, 1, 2, 0]
    with pytest.raises(errors.InvalidArgumentError, match="Invalid formatting"):
        call("UnicodeDecode", value, input_encoding="UTF-8", errors="strict")


def test_base64_round_trips(call: Callable[..., Any]) -> None:
    value = string_array([bytes(range(size)) for size in range(6)])
    for pad in (True, False):
        encoded = call("EncodeBase64", value, pad=pad)
        assert call("DecodeBase64", encoded).tolist() == value.tolist()
    with pytest.raises(errors.InvalidArgumentError, match="base64"):
        call("DecodeBase64", strings("a+b/"))


def test_formatting_many_numbers_ends_when_the_step_is_cancelled(call: Callable[..., Any]) -> None:
    values = np.arange(40_000, dtype=np.float32)
    assert call("AsString", values)[[0, 16_384, 39_999]].tolist() == [
        b"0.000000",
        b"16384.000000",
        b"39999.000000",
    ]
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(errors.CancelledError):
        call("AsString", values)
