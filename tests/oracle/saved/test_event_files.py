"""TensorFlow and graphmill read each other's event and TFRecord files."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.tf_record import TFRecordWriter, tf_record_iterator

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")


def const(value, dtype):
    array = np.array(value, object if dtype == "string" else np.dtype(dtype))
    return ops.array.const(value=array, dtype=dtype)


def test_summary_iterator_reads_our_events(tmp_path):
    graph = graphmill.Graph()
    pictures = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 4, 2, 3)
    with graph.as_default():
        writer = ops.summary.summary_writer()
        begin = ops.summary.create_summary_file_writer(
            writer,
            const(str(tmp_path).encode(), "string"),
            const(1, "int32"),
            const(1, "int32"),
            const(b"", "string"),
        )
        step, tag = const(5, "int64"), const(b"x", "string")
        color = const([255, 0, 0, 255], "uint8")
        writes = [
            ops.summary.write_scalar_summary(writer, step, tag, const(2.5, "float32")),
            ops.summary.write_histogram_summary(writer, step, tag, const([1, 2], "float32")),
            ops.summary.write_image_summary(
                writer, step, tag, const(pictures, "float32"), color, max_images=1
            ),
        ]
        close = ops.summary.close_summary_writer(writer)
    with graphmill.Session(graph=graph) as session:
        for one in (begin, *writes, close):
            session.run(one)
    (path,) = tmp_path.iterdir()
    found = list(tf.compat.v1.train.summary_iterator(str(path)))
    assert [event.step for event in found] == [0, 5, 5, 5]
    scalar, histogram, image = (event.summary.value[0] for event in found[1:])
    assert scalar.simple_value == 2.5
    assert histogram.histo.num == 2
    decoded = tf.io.decode_png(image.image.encoded_image_string).numpy()
    assert decoded.shape == (4, 2, 3)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records_cross_over(tmp_path, compression):
    records = [b"one", b"", b"x" * 100_000]
    with TFRecordWriter(tmp_path / "ours", compression) as writer:
        for record in records:
            writer.write(record)
    with tf.io.TFRecordWriter(str(tmp_path / "theirs"), compression) as theirs:
        for record in records:
            theirs.write(record)
    read = tf.data.TFRecordDataset(str(tmp_path / "ours"), compression)
    assert [item.numpy() for item in read] == records
    assert list(tf_record_iterator(tmp_path / "theirs", compression)) == records


def test_image_summaries_show_the_same_pixels():
    tensor = np.array([[[[0.5], [np.nan]], [[-1.0], [2.0]]]], np.float32)
    graph = graphmill.Graph()
    with graph.as_default():
        ours = ops.summary.image_summary(const(b"x", "string"), const(tensor, "float32"))
    with graphmill.Session(graph=graph) as session:
        mine = tf.compat.v1.Summary.FromString(session.run(ours))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = tf.raw_ops.ImageSummary(tag="x", tensor=tensor)
        theirs = tf.compat.v1.Summary.FromString(session.run(made))
    (one,), (two,) = mine.value, theirs.value
    assert one.tag == two.tag
    assert (
        tf.io.decode_png(one.image.encoded_image_string).numpy().tolist()
        == tf.io.decode_png(two.image.encoded_image_string).numpy().tolist()
    )


def test_debug_dump_dir_loads_the_folder_of_a_watch(tmp_path):
    from tensorflow.python.debug.lib.debug_data import DebugDumpDir

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        graphmill.ops.math.neg(graphmill.ops.math.log(x, name="layer/y"), name="z")
    options = graphmill.RunOptions()
    options.debug_options.global_step = 7
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="layer/y", debug_ops=["DebugIdentity"], debug_urls=[f"file://{tmp_path}"]
    )
    with graphmill.Session(graph=graph) as session:
        session.run("z:0", {"x:0": [1.0]}, options=options)
    dump = DebugDumpDir(str(tmp_path))
    metadata = dump.core_metadata
    assert (metadata.global_step, metadata.input_names) == (7, ["x:0"])
    assert dump.node_inputs("z") == ["layer/y"]
    (watched,) = dump.watch_key_to_data("layer/y:0:DebugIdentity")
    assert watched.get_tensor().tolist() == [0.0]
