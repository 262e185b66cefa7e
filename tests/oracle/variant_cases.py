"""Variants of each type: how TensorFlow makes one, and the values that can be read from it."""

from __future__ import annotations

import numpy as np


def some_list(tf):
    handle = tf.raw_ops.TensorListReserve(
        element_shape=[-1], num_elements=4, element_dtype=tf.float32
    )
    handle = tf.raw_ops.TensorListSetItem(input_handle=handle, index=1, item=[1.0, 2.0])
    return tf.raw_ops.TensorListSetItem(input_handle=handle, index=3, item=tf.zeros([0]))


def of_some_list(tf, handle):
    read = {"element_shape": tf.constant([-1]), "element_dtype": tf.float32}
    items = [
        tf.raw_ops.TensorListGetItem(input_handle=handle, index=index, **read) for index in (1, 3)
    ]
    shape = tf.raw_ops.TensorListElementShape(input_handle=handle, shape_type=tf.int32)
    unset = tf.raw_ops.TensorListGetItem(
        input_handle=handle, index=0, element_shape=[2], element_dtype=tf.float32
    )
    return [*items, unset, shape, tf.raw_ops.TensorListLength(input_handle=handle)]


def list_of(tf, values):
    return tf.raw_ops.TensorListFromTensor(
        tensor=tf.constant(values), element_shape=tf.constant([], tf.int32)
    )


def stack_of(tf, handle, dtype):
    return [
        tf.raw_ops.TensorListStack(
            input_handle=handle, element_shape=tf.constant([], tf.int32), element_dtype=dtype
        )
    ]


def nested_list(tf):
    outer = tf.raw_ops.EmptyTensorList(
        element_shape=tf.constant([], tf.int32), max_num_elements=2, element_dtype=tf.variant
    )
    inner = list_of(tf, [b"a\0", b"", b"\xff"])
    return tf.raw_ops.TensorListPushBack(input_handle=outer, tensor=inner)


def of_nested_list(tf, handle):
    inner = tf.raw_ops.TensorListGetItem(
        input_handle=handle,
        index=0,
        element_shape=tf.constant([], tf.int32),
        element_dtype=tf.variant,
    )
    return stack_of(tf, inner, tf.string)


def optional(tf):
    return tf.raw_ops.OptionalFromValue(
        components=[tf.constant([1, 2], tf.int64), tf.constant("text"), list_of(tf, [True, False])]
    )


def of_optional(tf, value):
    items = tf.raw_ops.OptionalGetValue(
        optional=value,
        output_types=[tf.int64, tf.string, tf.variant],
        output_shapes=[[2], [], []],
    )
    return [
        tf.raw_ops.OptionalHasValue(optional=value),
        *items[:2],
        *stack_of(tf, items[2], tf.bool),
    ]


def ragged(tf, batched):
    splits = [tf.constant([0, 2, 2], tf.int64), tf.constant([0, 1, 3], tf.int64)]
    return tf.raw_ops.RaggedTensorToVariant(
        rt_nested_splits=splits, rt_dense_values=tf.constant([1, 2, 3]), batched_input=batched
    )


def of_ragged(tf, value, batched):
    found = tf.raw_ops.RaggedTensorFromVariant(
        encoded_ragged=value,
        input_ragged_rank=1 if batched else 2,
        output_ragged_rank=2,
        Tvalues=tf.int32,
    )
    return [*found[0], found[1]]


def tensor_map(tf):
    filled = tf.raw_ops.TensorMapInsert(
        input_handle=tf.raw_ops.EmptyTensorMap(), key="a", value=[1.0, 2.0]
    )
    return tf.raw_ops.TensorMapInsert(input_handle=filled, key="b", value=[3.0, 4.0])


def of_tensor_map(tf, value):
    return [
        tf.raw_ops.TensorMapSize(input_handle=value),
        *[
            tf.raw_ops.TensorMapLookup(input_handle=value, key=key, value_dtype=tf.float32)
            for key in "ab"
        ],
    ]


def csr_matrix(tf):
    dense = [[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]
    return tf.raw_ops.DenseToCSRSparseMatrix(dense_input=dense, indices=[[0, 0], [0, 2], [1, 1]])


def of_csr_matrix(tf, value):
    return [tf.raw_ops.CSRSparseMatrixToDense(sparse_input=value, type=tf.float32)]


def sparse(tf):
    return tf.raw_ops.SerializeSparse(
        sparse_indices=tf.constant([[0, 1]], tf.int64),
        sparse_values=[1.5],
        sparse_shape=tf.constant([2, 2], tf.int64),
        out_type=tf.variant,
    )


def of_sparse(tf, value):
    return list(tf.raw_ops.DeserializeSparse(serialized_sparse=value, dtype=tf.float32))


def composite(tf):
    return tf.raw_ops.CompositeTensorVariantFromComponents(
        components=[tf.constant(1), tf.constant([b"x"])], metadata=b""
    )


def of_composite(tf, value):
    return tf.raw_ops.CompositeTensorVariantToComponents(
        encoded=value, metadata=b"", Tcomponents=[tf.int32, tf.string]
    )


def compressed(tf):
    parts = [[1, 2, 3], [b"ab", b""], 2.5, np.zeros([0, 2]), list_of(tf, np.arange(3000) % 7)]
    return tf.raw_ops.CompressElement(components=[tf.convert_to_tensor(part) for part in parts])


def of_compressed(tf, value):
    items = tf.raw_ops.UncompressElement(
        compressed=value,
        output_types=[tf.int32, tf.string, tf.float32, tf.float64, tf.variant],
        output_shapes=[[3], [2], [], [0, 2], []],
    )
    return [*items[:4], *stack_of(tf, items[4], tf.int64)]


# How to make a variant, and what can be read from it.
CASES = {
    "list": (some_list, of_some_list),
    "list of variants": (nested_list, of_nested_list),
    "half precision": (
        lambda tf: list_of(tf, np.float16([1.5, -2])),
        lambda tf, value: stack_of(tf, value, tf.float16),
    ),
    "large elements": (
        lambda tf: list_of(tf, np.arange(100_000)),
        lambda tf, value: stack_of(tf, value, tf.int64),
    ),
    "optional": (optional, of_optional),
    "no value": (
        lambda tf: tf.raw_ops.OptionalNone(),
        lambda tf, value: [tf.raw_ops.OptionalHasValue(optional=value)],
    ),
    "ragged": (lambda tf: ragged(tf, False), lambda tf, value: of_ragged(tf, value, False)),
    "batch of ragged": (lambda tf: ragged(tf, True), lambda tf, value: of_ragged(tf, value, True)),
    "map": (tensor_map, of_tensor_map),
    "CSR matrix": (csr_matrix, of_csr_matrix),
    "sparse": (sparse, of_sparse),
    "composite": (composite, of_composite),
    "compressed": (compressed, of_compressed),
}
