"""A batch run reads rows of all formats, writes all formats, resumes, and reports bad rows."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill import Graph, batch, dtypes, errors, files, ops, proto, tf_record
from graphmill.batch import processes
from graphmill.plugin.host import default_host


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def totals(path: Path) -> list[float]:
    return [float(row["total:0"]) for row in rows_of(path)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    lines = [f"{i},{i + 1},{i + 2}" for i in range(100)]
    path.write_text("\n".join(["p,q,r", *lines]) + "\n")
    return path


EXPECTED = [3.0 * i + 3 for i in range(100)]


def test_table_feeds_the_only_input(sums: str, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    report = batch.run(sums, table, out, batch_size=7)
    assert (report.rows, report.failures, report.resumed_rows) == (100, 0, 0)
    assert totals(out) == EXPECTED
    first = rows_of(out)[0]
    assert list(first) == ["file", "line", *(f"doubled:0[{i}]" for i in range(3)), "total:0"] or (
        set(first) == {"file", "line", "total:0", *(f"doubled:0[{i}]" for i in range(3))}
    )
    assert (first["file"], first["line"]) == (str(table), "2")
    assert not (tmp_path / "out.csv.partial").exists()


def test_short_run_is_not_compiled(sums: str, table: Path, tmp_path: Path) -> None:
    background = default_host().background
    background.wait_idle()
    before = background.num_done + background.num_dropped
    assert batch.run(sums, table, tmp_path / "out.csv", batch_size=2).rows == 100
    assert background.num_done + background.num_dropped == before


def test_columns_feed_inputs_by_name(products: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,b,a\nu,2,3\nv,4,5\n")
    notes: list[str] = []
    options = {"inputs": {"factor": np.float32(10)}, "on_note": notes.append}
    batch.run(products, path, tmp_path / "out.csv", **options)  # type: ignore[arg-type]
    assert [row["product:0"] for row in rows_of(tmp_path / "out.csv")] == ["60.0", "200.0"]
    assert notes == [f"{path}: no input takes these columns: id"]


def test_old_name_of_the_argument_for_notes_warns_and_works(products: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,b,a\nu,2,3\n")
    notes: list[str] = []
    options = {"inputs": {"factor": np.float32(10)}, "tell": notes.append}
    with pytest.warns(DeprecationWarning, match="'tell' is now 'on_note'") as caught:
        batch.run(products, path, tmp_path / "out.csv", **options)  # type: ignore[arg-type]
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="'tell' is now 'on_note'"):
        list(batch.predict(products, each=path, **options))  # type: ignore[arg-type]
    assert notes == [f"{path}: no input takes these columns: id"] * 2


def test_notes_without_a_function_are_logged(
    pictures: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    image = pytest.importorskip("PIL.Image")
    paths = [tmp_path / "black.png", tmp_path / "white.png"]
    for path, colour in zip(paths, (0, 255), strict=True):
        image.new("L", (2, 2), colour).save(path)
    assert [p.outputs["whole:0"] for p in batch.predict(pictures, each=paths)] == [0, 4]
    batch.run(pictures, paths, tmp_path / "out.csv")
    batch.run(pictures, paths, tmp_path / "more.csv", on_note=lambda _: None)
    text = "the pixels of images are scaled to 0..1; --pixels (pixels=) chooses 0..255 or -1..1"
    assert caplog.record_tuples == [("graphmill.batch", logging.WARNING, text)] * 2


def test_inputs_keep_their_defaults(scaled: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n2\n")
    notes: list[str] = []
    fetches = ("product:0",)
    found = batch.predict(scaled, each=path, on_note=notes.append, fetches=fetches)
    assert [row.outputs["product:0"] for row in found] == [2, 4]
    expected = "input 'factor' keeps its default; factor=VALUE (inputs=) gives all rows another"
    assert notes == [expected]
    report = batch.run(scaled, path, tmp_path / "out.csv", inputs={"factor": np.float32(3)})
    assert report.rows == 2
    assert [row["product:0"] for row in rows_of(tmp_path / "out.csv")] == ["3.0", "6.0"]


def test_chosen_columns_feed_the_only_input(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,p,q,r\n7,1,2,3\n")
    batch.run(sums, path, tmp_path / "out.csv", columns=("p", "q", "r"))
    assert totals(tmp_path / "out.csv") == [6]


def test_columns_of_an_input_of_one_value_are_to_be_chosen(checked: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("id,size\n7,4\n")
    message = r"rows\.csv:2 has the columns 'id', 'size', but a row of input 'x' is one value"
    with pytest.raises(errors.InvalidArgumentError, match=message) as caught:
        list(batch.predict(checked, each=path))
    assert "--columns NAME (columns=)" in caught.value.__notes__[0]
    (row,) = batch.predict(checked, each=path, columns=("size",))
    assert row.outputs["root:0"] == 2


def test_features_for_an_input_of_examples_are_pointed_to_records(
    texts: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"age": 20.0, "job": "cook"}\n')
    with pytest.raises(errors.InvalidArgumentError, match="no value for input 'text'") as caught:
        list(batch.predict(texts, each=path))
    assert "--input_examples" in caught.value.__notes__[0]


def test_element_columns_and_lists_in_cells_feed_a_vector(sums: str, tmp_path: Path) -> None:
    by_element = tmp_path / "elements.csv"
    by_element.write_text("x[0],x[1],x[2]\n1,2,3\n")
    as_list = tmp_path / "lists.csv"
    as_list.write_text('x\n"[4, 5, 6]"\n')
    batch.run(sums, [by_element, as_list], tmp_path / "out.csv")
    assert totals(tmp_path / "out.csv") == [6, 15]


def test_json_lines_feed_by_member_or_value(sums: str, products: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('[1, 2, 3]\n\n{"x": [4, 5, 6]}\n{"x": [1, 1, 1], "more": 2}\n')
    batch.run(sums, path, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["outputs"]["total:0"] for line in lines] == [6, 15, 3]
    assert [line["line"] for line in lines] == [1, 3, 4]
    path.write_text('{"a": 2, "b": [3], "more": 1}\n')
    (only,) = batch.predict(products, each=path, inputs={"factor": np.float32(1)})
    assert only.outputs["product:0"] == 6


def test_member_of_another_name_than_the_only_input_is_refused(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"xs": [1, 2, 3]}\n')
    message = r"rows\.jsonl:1 has no value for input 'x'; did you mean 'xs'\?; it has 'xs'"
    with pytest.raises(errors.InvalidArgumentError, match=message):
        list(batch.predict(sums, each=path))


def test_columns_of_a_vector_are_explained(tmp_path: Path) -> None:
    graph = Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 2], name="x")
        ops.math.add(x, graph.placeholder("float32", [None, 1], name="y"), name="z")
    (tmp_path / "m.pb").write_bytes(graph.as_graph_def().SerializeToString())
    (tmp_path / "rows.csv").write_text("a,b,y\n1,2,3\n")
    with pytest.raises(errors.InvalidArgumentError, match="no column is named 'x'") as caught:
        batch.run(tmp_path / "m.pb", tmp_path / "rows.csv", tmp_path / "out.csv")
    assert "columns x[0], x[1] and so on" in caught.value.__notes__[0]


def test_columns_separated_by_semicolons_are_pointed_out(
    sums: str, products: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n1;2\n")
    inputs = {"factor": np.float32(1)}
    for model, options in ((sums, {}), (products, {"inputs": inputs}), (sums, {"columns": ["a"]})):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            list(batch.predict(model, each=path, **options))
        assert "look separated by semicolons" in caught.value.__notes__[0]


def test_text_files_feed_texts_by_line_or_whole(texts: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.txt"
    path.write_text("good fun\nawful\n")
    by_line = list(batch.predict(texts, each=path))
    assert [p.outputs["length:0"].tolist() for p in by_line] == [[8], [5]]
    (whole,) = batch.predict(texts, each=path, whole_files=True)
    assert whole.outputs["length:0"].tolist() == [15]


def test_text_files_feed_numbers(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text("1 2 3\n4,5,6\n")
    values = [p.outputs["total:0"] for p in batch.predict(sums, each=path)]
    assert values == [6, 15]


def test_records_feed_features_or_whole_examples(sums: str, texts: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.tfrecord"
    example = proto.Example()
    example.features.feature["x"].float_list.value.extend([1, 2, 3])
    example.features.feature["label"].int64_list.value.append(1)
    serialized = example.SerializeToString()
    with tf_record.TFRecordWriter(path) as writer:
        writer.write(serialized)
    (numbers,) = batch.predict(sums, each=path)
    assert numbers.outputs["total:0"] == 6
    (text,) = batch.predict(texts, each=path)
    assert text.outputs["same:0"].tolist() == [serialized]


def test_arrays_hold_a_row_or_many(sums: str, tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "one.npy", np.ones(3))
    np.savez(tmp_path / "named.npz", x=np.zeros((2, 3)), other=np.ones(1))
    files_of_rows = [tmp_path / name for name in ("many.npy", "one.npy", "named.npz")]
    found = [(p.line, float(p.outputs["total:0"])) for p in batch.predict(sums, each=files_of_rows)]
    assert found == [(1, 3), (2, 12), (None, 3), (1, 0), (2, 0)]


def test_values_from_python_are_rows(products: str) -> None:
    rows = ({"a": i, "b": 2} for i in range(5))
    found = list(batch.predict(products, rows, inputs={"factor": np.float32(1)}, batch_size=2))
    assert [p.outputs["product:0"] for p in found] == [0, 2, 4, 6, 8]


def test_folder_and_pattern_name_files(sums: str, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for index in range(3):
        (folder / f"{index}.txt").write_text(f"{index} 0 0\n")
    (folder / "notes.md").write_text("not rows")
    (folder / ".hidden.txt").write_text("9 9 9\n")
    for each in (folder, f"{folder}/*.txt"):
        assert [p.outputs["total:0"] for p in batch.predict(sums, each=each)] == [0, 1, 2]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".npz"])
def test_processes_give_the_same_file(sums: str, table: Path, tmp_path: Path, suffix: str) -> None:
    contents = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}{suffix}"
        assert batch.run(sums, table, out, batch_size=4, jobs=jobs).rows == 100
        contents.append(out.read_bytes())
    if suffix == ".npz":
        one, two = (np.load(io.BytesIO(content)) for content in contents)
        assert all(np.array_equal(one[name], two[name]) for name in one.files)
        np.testing.assert_array_equal(one["total:0"], np.float32(EXPECTED))
        assert one["line"].tolist() == list(range(2, 102))
    else:
        assert contents[0] == contents[1]


def test_parquet_has_a_column_for_each_output(sums: str, table: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    batch.run(sums, table, tmp_path / "out.parquet")
    rows = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["total:0"] for row in rows] == EXPECTED
    assert rows[1]["doubled:0"] == [2, 4, 6]


def test_texts_survive_all_formats(texts: str, tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes('grün,"x"\n'.encode() + b"\xff\xfe\n")
    for suffix in (".csv", ".jsonl", ".npz"):
        batch.run(texts, path, tmp_path / f"out{suffix}")
    archive = np.load(tmp_path / "out.npz")
    assert archive["same:0"].tolist() == [['grün,"x"'.encode()], [b"\xff\xfe"]]
    assert rows_of(tmp_path / "out.csv")[0]["same:0[0]"] == 'grün,"x"'
    second = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[1])
    assert second["outputs"]["same:0"] == [{"b64": "//4="}]


def test_bad_row_ends_the_run_with_its_place(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("p,q,r\n1,2,3\n1,2\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"rows\.csv:3 has 2 columns"):
        batch.run(sums, path, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


BAD = {
    "1,2": "has 2 columns, but the header has 3",
    "1,2,x": "contains text that is not a number",
    "1,,3": "column 'q' is empty",
    '1,"2,3': "not CSV",
}


@pytest.mark.parametrize("line", BAD)
def test_bad_rows_are_left_out_and_reported(sums: str, tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"p,q,r\n1,2,3\n4,5,6\n{line}\n")
    notes: list[str] = []
    report = batch.run(sums, path, tmp_path / "out.csv", keep_going=True, on_note=notes.append)
    assert (report.rows, report.failures) == (2, 1)
    assert f"{path}:4" in notes[0]
    assert BAD[line] in notes[0]
    rows = rows_of(tmp_path / "out.csv")
    assert BAD[line] in rows[2]["error"]
    assert [row["error"] for row in rows[:2]] == ["", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ":1 is empty, expected a header"),
        (b"p,\xff,r\n1,2,3\n", ":1 is not text in UTF-8; convert"),
        (b'p,"q\n', ":1 is not CSV"),
    ],
)
def test_file_with_a_bad_header_is_one_failed_row(
    sums: str, tmp_path: Path, content: bytes, message: str
) -> None:
    bad = tmp_path / "a.csv"
    bad.write_bytes(content)
    (tmp_path / "b.csv").write_text("p,q,r\n1,2,3\n")
    files_ = [bad, tmp_path / "b.csv"]
    notes: list[str] = []
    report = batch.run(sums, files_, tmp_path / "out.csv", keep_going=True, on_note=notes.append)
    assert (report.rows, report.failures) == (1, 1)
    assert notes[0].startswith(f"{bad}{message}")
    with pytest.raises(errors.InvalidArgumentError, match=message):
        batch.run(sums, files_, tmp_path / "other.csv")


def test_row_that_fails_in_the_graph_is_found(checked: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x\n" + "\n".join(str(-1 if i == 13 else i * i) for i in range(40)) + "\n")
    with pytest.raises(errors.InvalidArgumentError) as caught:
        batch.run(checked, path, tmp_path / "out.csv")
    assert any(f"{path}:15" in note for note in caught.value.__notes__)
    notes: list[str] = []
    batch.run(
        checked, path, tmp_path / "out.csv", keep_going=True, on_note=notes.append, overwrite=True
    )
    assert [line.partition(" ")[0] for line in notes] == [f"{path}:15:"]
    values = [row["root:0"] for row in rows_of(tmp_path / "out.csv")]
    assert values == ["" if i == 13 else str(float(i)) for i in range(40)]


def test_nan_is_a_number_and_no_integer(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("p,q,r\nnan,1,2\ninf,1,2\n")
    batch.run(sums, path, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["outputs"]["total:0"] for line in lines] == ["NaN", "Infinity"]


def test_million_columns_are_refused_briefly(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    count = 10**6
    path.write_text(",".join(f"c{i}" for i in range(count)) + "\n" + ",".join("1" * count) + "\n")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"wide\.csv:2 has shape \[1000000\]"
    ) as e:
        batch.run(sums, path, tmp_path / "out.csv")
    assert len(str(e.value)) < 1000


@pytest.mark.parametrize("name", ["empty.csv", "damaged.tfrecord", "damaged.npy", "damaged.npz"])
def test_damaged_file_is_an_error(sums: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"" if name.startswith("empty") else b"damaged content")
    with pytest.raises(errors.OpError, match=name.replace(".", r"\.")):
        batch.run(sums, path, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv.partial").exists()


def test_links_to_nothing_are_bad_rows(sums: str, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / "a.txt").write_text("1 2 3\n")
    (folder / "b.txt").symlink_to(tmp_path / "nothing.txt")
    (folder / "c.npy").symlink_to(folder / "c.npy")
    (folder / "d.tfrecord").symlink_to(tmp_path / "nothing")
    np.save(folder / "e.npy", np.ones(3))
    for each in (folder, f"{folder}/*"):
        out = tmp_path / "out.csv"
        report = batch.run(sums, each, out, keep_going=True, overwrite=True)
        assert (report.rows, report.failures) == (2, 3)
        with pytest.raises(errors.OpError, match=r"b\.txt"):
            batch.run(sums, each, out, overwrite=True)


def test_files_that_do_not_exist_are_errors(sums: str, table: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    for each, message in (
        (tmp_path / "row.csv", "did you mean 'rows.csv'"),
        (f"{tmp_path}/*.png", "no file matches"),
        (tmp_path / "none", "has no file of a type"),
    ):
        with pytest.raises(errors.NotFoundError, match=message):
            batch.run(sums, each, tmp_path / "out.csv")


def test_interrupted_run_resumes(
    sums: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    steps: list[batch.Progress] = []

    def interrupt(progress: batch.Progress) -> None:
        steps.append(progress)
        if len(steps) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.run(sums, table, out, batch_size=8, progress=interrupt)
    assert not out.exists()
    with pytest.raises(errors.AlreadyExistsError, match="40 rows of a run that was interrupted"):
        batch.run(sums, table, out)
    with pytest.raises(errors.FailedPreconditionError, match="different: pixels"):
        batch.run(sums, table, out, resume=True, pixels="0..255")
    report = batch.run(sums, table, out, batch_size=16, resume=True)
    assert (report.rows, report.resumed_rows) == (100, 40)
    assert totals(out) == EXPECTED


def test_changed_input_is_not_resumed(sums: str, table: Path, tmp_path: Path) -> None:
    def interrupt(progress: batch.Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.run(sums, table, tmp_path / "out.csv", progress=interrupt)
    table.write_text(table.read_text() + "1,2,3\n")
    with pytest.raises(errors.FailedPreconditionError, match="different: files"):
        batch.run(sums, table, tmp_path / "out.csv", resume=True)
    assert batch.run(sums, table, tmp_path / "out.csv", overwrite=True).rows == 101


def test_full_disk_leaves_the_old_file(
    sums: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    original = files.LocalWriter.write

    def write(self: files.LocalWriter, chunk: Any) -> None:
        if self.path == str(out):
            raise errors.ResourceExhaustedError(f"{out}: No space left on device")
        original(self, chunk)

    monkeypatch.setattr(files.LocalWriter, "write", write)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        batch.run(sums, table, out, overwrite=True)
    assert out.read_text() == "old"
    monkeypatch.undo()
    report = batch.run(sums, table, out, overwrite=True, resume=True)
    assert (report.rows, report.resumed_rows) == (100, 100)
    assert totals(out) == EXPECTED


def test_existing_result_is_not_replaced(sums: str, table: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(errors.AlreadyExistsError, match="exists already"):
        batch.run(sums, table, tmp_path / "out.csv")


def test_failure_of_a_worker_ends_the_run(sums: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("p,q,r\n1,2,3\n1,2\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"rows\.csv:3 has 2 columns"):
        batch.run(sums, path, tmp_path / "out.csv", jobs=2)


def test_workers_print_what_their_kernels_print(
    printing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    out = tmp_path / "out.csv"
    report = batch.run(printing, tmp_path / "texts.txt", out, batch_size=1, jobs=2)
    assert (report.rows, report.failures) == (2, 0)
    assert sorted(capsys.readouterr().out.split()) == ["one", "two"]


def test_text_on_descriptor_1_does_not_break_the_messages_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(Path(__file__).parent / "plugins")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("GRAPHMILL_LOAD_PLUGINS", "descriptor_kernels")
    graph = proto.GraphDef()
    graph.node.add(name="text", op="Placeholder").attr["dtype"].type = dtypes.string.enum
    graph.node.add(name="same", op="Descriptor>Write", input=["text"])
    (tmp_path / "model.pb").write_bytes(graph.SerializeToString())
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    out = tmp_path / "out.csv"
    report = batch.run(
        tmp_path / "model.pb", tmp_path / "texts.txt", out, fetches=["same"], batch_size=1, jobs=2
    )
    assert (report.rows, report.failures) == (2, 0)


def test_worker_that_ends_in_a_message_is_reported() -> None:
    code = """import sys; sys.stdout.write('[1]\\n[1, '); sys.exit(3)"""
    worker = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    messages: list[Any] = []
    processes._forward_messages(worker, "", 0, messages.append)
    assert messages == [(0, [1]), (0, {"exit": 3, "stderr": ""})]


def test_standard_input_is_read(sums: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"[1, 2, 3]\n[4, 5, 6]\n")

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(errors.InvalidArgumentError, match="format of standard input"):
        batch.run(sums, "-", tmp_path / "out.csv")
    assert not list(tmp_path.glob("out.csv*"))
    batch.run(sums, "-", tmp_path / "out.csv", stdin_format="jsonl")
    assert totals(tmp_path / "out.csv") == [6, 15]
    assert rows_of(tmp_path / "out.csv")[0]["file"] == "stdin"


def test_cut_records_of_standard_input_are_reported(
    sums: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tf_record.TFRecordWriter(tmp_path / "rows.tfrecord") as writer:
        writer.write(b"")

    class Stdin:
        buffer = io.BytesIO((tmp_path / "rows.tfrecord").read_bytes()[:-1])

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(errors.DataLossError, match=r"^stdin:1: .*; the rest is skipped"):
        batch.run(sums, "-", tmp_path / "out.csv", stdin_format="tfrecord")


def test_missing_file_in_a_list_of_paths_leaves_nothing_behind(
    sums: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdin:
        buffer = io.BytesIO(f"{tmp_path}/missing.csv\n".encode())

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(errors.NotFoundError, match=r"missing\.csv"):
        batch.run(sums, "-", tmp_path / "out.csv", stdin_format="paths")
    assert not list(tmp_path.glob("out.csv*"))


def test_output_without_rows_is_an_error(tmp_path: Path) -> None:
    import graphmill
    from graphmill import ops

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.sum(x, [0], name="total")
    path = tmp_path / "total.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(errors.InvalidArgumentError, match="expected one value for each row"):
        list(batch.predict(path, [1.0, 2.0]))
    found = [p.outputs["total:0"] for p in batch.predict(path, [1.0, 2.0], batch_size=1)]
    assert found == [1, 2]


def test_unknown_option_and_wrong_numbers_are_errors(
    sums: str, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    with pytest.raises(TypeError, match=r"did you mean 'batch_size'.*; the options are allow, "):
        batch.run(sums, table, out, batchsize=3)
    with pytest.raises(errors.InvalidArgumentError, match="batch_size=0"):
        batch.run(sums, table, out, batch_size=0)
    with pytest.raises(errors.InvalidArgumentError, match="jobs=0"):
        batch.run(sums, table, out, jobs=0)
    with pytest.raises(errors.InvalidArgumentError, match="unsupported file type"):
        batch.run(sums, table, tmp_path / "out.xml")
    assert not (tmp_path / "out.csv.partial").exists()


def test_archive_with_a_member_that_is_no_array_is_a_bad_row(sums: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("notes.txt", "no array")
    with pytest.raises(
        errors.InvalidArgumentError, match=r"a\.npz: its member 'notes\.txt' is not"
    ):
        batch.run(sums, tmp_path / "a.npz", tmp_path / "out.csv")
    report = batch.run(sums, tmp_path / "a.npz", tmp_path / "out.csv", keep_going=True)
    assert (report.rows, report.failures) == (0, 1)


def test_array_file_with_the_suffix_of_the_other_kind_is_a_bad_row(
    sums: str, tmp_path: Path
) -> None:
    for saved, named, kind in (("a.npz", "b.npy", "an archive"), ("c.npy", "d.npz", "a single")):
        save = np.savez if saved.endswith("z") else np.save
        save(tmp_path / saved, np.ones((2, 3), np.float32))
        (tmp_path / saved).rename(tmp_path / named)
        with pytest.raises(errors.InvalidArgumentError, match=f"{named} is not a .*{kind}"):
            batch.run(sums, tmp_path / named, tmp_path / "out.csv")


def test_arrays_of_different_lengths_are_a_bad_row(products: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.ones(2, np.float32), b=np.ones((3, 1), np.float32))
    options: dict[str, Any] = {"inputs": {"factor": np.float32(1)}, "keep_going": True}
    report = batch.run(products, tmp_path / "a.npz", tmp_path / "out.csv", **options)
    assert (report.rows, report.failures) == (0, 1)
    assert "different numbers of rows: 2, 3" in (tmp_path / "out.csv").read_text()
