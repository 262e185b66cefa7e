"""Values are converted to the model's dtype and rank, or refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.cli.input_args import Source, parse_inputs, parse_short
from graphmill.inputs.input_spec import InputSpec
from graphmill.inputs.input_values import load

if TYPE_CHECKING:
    from pathlib import Path

FLOATS = InputSpec("x", dtypes.float32, (-1, 3))
INTS = InputSpec("x", dtypes.int32, None)
TEXT = InputSpec("x", dtypes.string, (-1,))


def load_short(argument: str, spec: InputSpec) -> np.ndarray[Any, Any]:
    return load(parse_short([argument])[0], spec)


def test_literal_takes_the_dtype_of_the_model() -> None:
    array = load_short("x=[[1,2,3]]", FLOATS)
    assert array.dtype == np.float32
    assert array.tolist() == [[1.0, 2.0, 3.0]]


def test_missing_batch_dimension_is_added() -> None:
    assert load_short("x=[1,2,3]", FLOATS).shape == (1, 3)


def test_wrong_shape_is_reported_with_both_shapes() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"\[1, 2\], but 'x' accepts \[\?, 3\]"):
        load_short("x=[[1,2]]", FLOATS)


@pytest.mark.parametrize("text", ["1.5", "[1, 2.5]", "3000000000", "'a'", "[[1],[1,2]]", "null"])
def test_values_that_do_not_fit_an_integer_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        load_short(f"x={text}", INTS)


@pytest.mark.parametrize(("text", "value"), [("[1, 2.5]", "2.5"), ("['a']", "b'a'")])
def test_value_that_does_not_fit_an_integer_is_shown(text: str, value: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"does not fit .*: it has {value}$"):
        load_short(f"x={text}", INTS)


def test_integer_that_is_too_large_is_shown() -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=r"has 9{20}, which does not fit input 'x'"
    ):
        load_short(f"x=[1, {'9' * 20}]", INTS)


def test_lone_surrogate_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"has the character '\\ud800', half of"):
        load_short(r"x='a\ud800'", TEXT)


@pytest.mark.filterwarnings("error")
def test_complex_numbers_without_an_imaginary_part_are_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3]], np.complex64))
    assert load_short(f"x=@{tmp_path / 'x.npy'}", FLOATS).tolist() == [[1.0, 2.0, 3.0]]
    np.save(tmp_path / "x.npy", np.array([[1, 2j, 3]], np.complex64))
    with pytest.raises(errors.InvalidArgumentError, match=r"does not fit .*: it has 2j"):
        load_short(f"x=@{tmp_path / 'x.npy'}", FLOATS)


def test_whole_floats_fit_an_integer() -> None:
    assert load_short("x=[1.0, -2.0]", INTS).tolist() == [1, -2]


def test_bfloat16_takes_floats() -> None:
    spec = InputSpec("x", dtypes.bfloat16, None)
    assert load_short("x=[1.5]", spec).dtype == dtypes.bfloat16.as_numpy_dtype


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("hello", [b"hello"]),
        ("'hello'", [b"hello"]),
        ("['a', 'b']", [b"a", b"b"]),
        ("['a\\x00', 'ä']", [b"a\x00", "ä".encode()]),
        ("b'a\\x00'", [b"a\x00"]),
    ],
)
def test_text_becomes_bytes(text: str, items: list[bytes]) -> None:
    assert load_short(f"x={text}", TEXT).tolist() == items


def test_numbers_for_text_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="accepts strings"):
        load_short("x=[1, 2]", TEXT)


def test_npy_files_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    assert load_short(f"x=@{tmp_path}/x.npy", FLOATS).shape == (2, 3)


def test_npz_by_key_by_input_name_and_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", x=np.ones(3), y=np.zeros(3))
    np.savez(tmp_path / "one.npz", z=np.full(3, 2.0))
    assert load_short(f"x=@{tmp_path}/two.npz", FLOATS).sum() == 3
    assert load_short(f"x=@{tmp_path}/two.npz[y]", FLOATS).sum() == 0
    assert load_short(f"x=@{tmp_path}/one.npz", FLOATS).sum() == 6


def test_npz_without_the_key_lists_alternatives(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", images=np.ones(3), y=np.zeros(3))
    with pytest.raises(errors.NotFoundError, match=r"'image'; did you mean 'images'\?; it has"):
        load(parse_inputs(f"x={tmp_path}/two.npz[image]")[0], FLOATS)
    with pytest.raises(errors.InvalidArgumentError, match="several arrays"):
        load_short(f"x=@{tmp_path}/two.npz", FLOATS)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(errors.InvalidArgumentError, match=r"not a \.npy file"):
        load_short(f"x=@{tmp_path}/x.npy", FLOATS)


def test_json_arrays_and_members_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[[1, 2, 3]]")
    (tmp_path / "o.json").write_text(json.dumps({"x": [1, 2, 3], "y": [4, 5, 6]}))
    assert load_short(f"x=@{tmp_path}/x.json", FLOATS).tolist() == [[1, 2, 3]]
    assert load_short(f"x=@{tmp_path}/o.json", FLOATS).tolist() == [[1, 2, 3]]
    assert load_short(f"x=@{tmp_path}/o.json[y]", FLOATS).tolist() == [[4, 5, 6]]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1 2 3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]]),
        ("1\n\n2\n3", [[1, 2, 3]]),
        ("1 2 3", [[1, 2, 3]]),
    ],
)
def test_numbers_in_text_files_are_read(
    tmp_path: Path, text: str, values: list[list[float]]
) -> None:
    (tmp_path / "x.txt").write_text(text)
    assert load_short(f"x=@{tmp_path}/x.txt", FLOATS).tolist() == values


def test_lines_of_text_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("one\ntwo 2\n")
    assert load_short(f"x=@{tmp_path}/x.txt", TEXT).tolist() == [b"one", b"two 2"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", b"\x93NUMPY\x01\x00"),
        ("x.npy", b""),
        ("x.npz", b"PK\x03\x04 not a zip"),
        ("x.npz", b"junk"),
        ("x.json", b'{"x": '),
        ("x.json", b"[" * 100_000),
        ("x.json", b"\xff\xfe"),
        ("x.txt", b"\xff\xfe"),
        ("x.txt", b"1 two"),
        ("x.txt", b""),
        ("x.csv", b"1,2"),
    ],
)
def test_damaged_files_are_typed_errors(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(errors.InvalidArgumentError):
        load_short(f"x=@{tmp_path}/{name}", FLOATS)


def test_missing_file_gets_near_matches(tmp_path: Path) -> None:
    (tmp_path / "seven.npy").write_bytes(b"")
    with pytest.raises(errors.NotFoundError, match=r"there is no file .*'seven.npy'"):
        load_short(f"x=@{tmp_path}/sevn.npy", FLOATS)


@pytest.mark.parametrize("name", ["rows.csv", "-", "folder", "*.png"])
def test_sources_of_many_rows_are_refused_with_the_option_for_them(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(errors.OpError) as caught:
        load_short(f"x=@{tmp_path}/{name}", FLOATS)
    assert any("--each" in note for note in caught.value.__notes__)


def test_examples_are_serialized() -> None:
    from graphmill.proto.example_pb2 import Example

    source = Source("x", "examples", '[{"age": [22], "name": ["ann"], "size": [1, 1.5]}]')
    (data,) = load(source, TEXT).tolist()
    feature = Example.FromString(data).features.feature
    assert list(feature["age"].int64_list.value) == [22]
    assert list(feature["name"].bytes_list.value) == [b"ann"]
    assert list(feature["size"].float_list.value) == [1.0, 1.5]


def test_examples_may_be_in_a_file(tmp_path: Path) -> None:
    text = '[{"age": [22.0], "name": ["ann"]}]'
    (tmp_path / "people.json").write_text(text)
    from_file = load(Source("x", "examples", f"@{tmp_path / 'people.json'}"), TEXT)
    assert from_file.tolist() == load(Source("x", "examples", text), TEXT).tolist()


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"a": 1}]', '[{"a": [1, "b"]}]'])
def test_examples_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        load(Source("x", "examples", text), TEXT)


def test_a_file_without_its_sign_gets_a_hint() -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        load_short("x=seven.png", FLOATS)
    assert "try: x=@seven.png, if it is a file" in caught.value.__notes__


TEXTS = InputSpec("texts", dtypes.string, (-1, 1))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("good fun", [[b"good fun"]]),
        ('["good", "awful"]', [[b"good"], [b"awful"]]),
        ('[["good"], ["awful"]]', [[b"good"], [b"awful"]]),
    ],
)
def test_texts_become_the_rows_of_a_column(text: str, rows: list[list[bytes]]) -> None:
    assert load(Source("texts", "literal", text), TEXTS).tolist() == rows


def test_lines_of_a_file_become_the_rows_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("good fun\nawful\n")
    source = Source("texts", "file", str(tmp_path / "t.txt"))
    assert load(source, TEXTS).tolist() == [[b"good fun"], [b"awful"]]


def test_numbers_become_the_rows_of_a_column() -> None:
    spec = InputSpec("x", dtypes.float32, (-1, 1))
    assert load(Source("x", "literal", "[1, 2]"), spec).tolist() == [[1.0], [2.0]]
    with pytest.raises(errors.InvalidArgumentError, match=r"has shape \[2, 2\]"):
        load(Source("x", "literal", "[[1, 2], [3, 4]]"), spec)


def test_features_for_text_are_refused_with_advice() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="accepts strings") as caught:
        load_short('x={"age": [20.0]}', TEXT)
    assert "--input_examples 'x=[{...}]'" in caught.value.__notes__[0]


def test_missing_file_of_an_unsupported_type_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.tfrecord"
    with pytest.raises(errors.NotFoundError, match=r"there is no file .*rows\.tfrecord"):
        load_short(f"x=@{path}", TEXT)
    path.write_bytes(b"")
    with pytest.raises(errors.InvalidArgumentError, match="unsupported file type"):
        load_short(f"x=@{path}", TEXT)
