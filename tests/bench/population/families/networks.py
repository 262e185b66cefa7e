"""The architectures of `tf.keras.applications`, frozen, with calibrated batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from population.layers import images, random, tf1
from population.registry import Built, case, each

SMALL = [
    "ConvNeXtTiny",
    "DenseNet121",
    "EfficientNetB0",
    "EfficientNetV2B0",
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Large",
    "MobileNetV3Small",
    "NASNetMobile",
    "RegNetX002",
    "RegNetY002",
    "ResNet50",
    "ResNet50V2",
    "Xception",
]
LARGE = ["InceptionResNetV2", "InceptionV3", "ResNetRS50", "VGG16"]


@case("{net}_{size}_b{batch}", each(net=SMALL, size=[224], batch=[1]))
@case("{net}_{size}_b{batch}", each(net=SMALL, size=[107], batch=[4]))
@case("{net}_{size}_b{batch}", each(net=LARGE, size=[192], batch=[1]))
def network(net: str, size: int, batch: int) -> Built:
    graph_def, fed, result = _frozen(net, size, batch)
    tf.import_graph_def(graph_def, name="")
    graph = tf1.get_default_graph()
    return Built({fed: images(batch, size, size, 3)}, [graph.get_tensor_by_name(result)])


def _frozen(net: str, size: int, batch: int) -> tuple[Any, str, str]:
    with tf.__internal__.eager_context.eager_mode():
        tf_keras.utils.set_random_seed(1)
        arguments = {"weights": None, "input_shape": (size, size, 3), "classes": 100}
        if "V3" in net and "MobileNet" in net:
            arguments["include_preprocessing"] = False
        model = getattr(tf_keras.applications, net)(classifier_activation=None, **arguments)
        _calibrate(model, size)
        signature = tf.TensorSpec([batch, size, size, 3], tf.float32, name="images")
        serve = tf.function(lambda x: tf.nn.softmax(model(x, training=False)))
        frozen = convert_variables_to_constants_v2(serve.get_concrete_function(signature))
        graph_def = frozen.graph.as_graph_def()
        return graph_def, frozen.inputs[0].name.partition(":")[0], frozen.outputs[0].name


def _calibrate(model: Any, size: int) -> None:
    """Set the moving statistics, so that activations have ordinary sizes."""
    for layer in model.layers:
        if isinstance(layer, tf_keras.layers.BatchNormalization):
            layer.momentum = 0.0
            if layer.gamma is not None:
                layer.gamma.assign(random.uniform(0.7, 1.3, layer.gamma.shape).astype(np.float32))
    model(images(4, size, size, 3), training=True)
