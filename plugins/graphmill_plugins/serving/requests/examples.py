"""Classification and regression: tf.Examples in, classes or values out.

Semantics: classifier.cc, regressor.cc and util.cc of tensorflow_serving/servables/tensorflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import proto

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill_plugins.serving.models.served_signature import Arrays, ServedSignature

CLASSIFY: Final = "tensorflow/serving/classify"
REGRESS: Final = "tensorflow/serving/regress"
INPUTS: Final = "inputs"
CLASSES: Final = "classes"
SCORES: Final = "scores"
OUTPUTS: Final = "outputs"


def serialized_examples(given: proto.Input) -> NDArray[np.object_]:
    """Return the examples of a request as a vector of bytes.

    The features of a context are added to each example that lacks them.

    Raises:
        InvalidArgumentError: there is none.
    """
    kind = given.WhichOneof("kind")
    examples = getattr(given, kind).examples if kind else ()
    if not examples:
        raise InvalidArgumentError("Input is empty.")
    context = b""
    if kind == "example_list_with_context":
        context = given.example_list_with_context.context.SerializeToString()
    serialized = np.empty(len(examples), object)
    # Protobuf merges concatenated messages; of two values of one key, the later counts.
    serialized[:] = [context + example.SerializeToString() for example in examples]
    return serialized


def classification_outputs(signature: ServedSignature) -> tuple[str, ...]:
    """Return the outputs of a signature that classification needs.

    Raises:
        InvalidArgumentError: the signature does not classify.
    """
    _check_method(signature, CLASSIFY, "classification")
    outputs = tuple(name for name in (CLASSES, SCORES) if name in signature.outputs)
    if not outputs:
        raise InvalidArgumentError(
            "Expected classification signature outputs to contain at least one of "
            f'"{CLASSES}" or "{SCORES}". Signature {signature.name!r} has: '
            f"{', '.join(signature.outputs)}"
        )
    return outputs


def regression_outputs(signature: ServedSignature) -> tuple[str, ...]:
    """Return the outputs of a signature that regression needs.

    Raises:
        InvalidArgumentError: the signature does not regress.
    """
    _check_method(signature, REGRESS, "regression")
    if OUTPUTS not in signature.outputs:
        raise InvalidArgumentError(
            f"No regression outputs found in SignatureDef: signature {signature.name!r} has "
            f"{', '.join(signature.outputs)}; expected {OUTPUTS!r}"
        )
    return (OUTPUTS,)


def to_classification_result(outputs: Arrays, count: int) -> proto.ClassificationResult:
    """Return the classes of each example.

    Args:
        outputs: "classes", "scores" or both, each of shape [count, number of classes].
        count: the number of examples.

    Raises:
        InvalidArgumentError: the outputs have other shapes or types.
    """
    classes, scores = outputs.get(CLASSES), outputs.get(SCORES)
    if classes is not None:
        _check_matrix(CLASSES, classes, np.dtype(object), count)
    if scores is not None:
        _check_matrix(SCORES, scores, np.dtype(np.float32), count)
    if classes is not None and scores is not None and classes.shape != scores.shape:
        raise InvalidArgumentError(
            "Tensors class and score should match in dim_size(1). Got "
            f"{classes.shape[1]} vs. {scores.shape[1]}"
        )
    labels = classes.tolist() if classes is not None else None
    values = scores.tolist() if scores is not None else None
    width = (classes if scores is None else scores).shape[1]  # type: ignore[union-attr]
    result = proto.ClassificationResult()
    for row in range(count):
        classifications = result.classifications.add()
        for column in range(width):
            scored_class = classifications.classes.add()
            if labels is not None:
                scored_class.label = _label(labels[row][column])
            if values is not None:
                scored_class.score = values[row][column]
    return result


def to_regression_result(outputs: Arrays, count: int) -> proto.RegressionResult:
    """Return the value of each example.

    Args:
        outputs: "outputs" of shape [count] or [count, 1].
        count: the number of examples.

    Raises:
        InvalidArgumentError: it has another shape or type.
    """
    values = outputs[OUTPUTS]
    if not (values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)):
        raise InvalidArgumentError(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            f"{list(values.shape)}"
        )
    if values.shape[0] != count:
        raise InvalidArgumentError(
            f"Input batch size did not match output batch size: {count} vs. {values.shape[0]}"
        )
    if values.dtype != np.float32:
        raise InvalidArgumentError(f"Expected output Tensor of DT_FLOAT. Got: {values.dtype}")
    result = proto.RegressionResult()
    for value in values.reshape(-1).tolist():
        result.regressions.add(value=value)
    return result


def _check_method(signature: ServedSignature, method: str, kind: str) -> None:
    if signature.method_name != method:
        raise InvalidArgumentError(
            f"Expected {kind} signature method_name to be {method}. Was: {signature.method_name} "
            f"(signature {signature.name!r})"
        )
    if list(signature.inputs) != [INPUTS]:
        raise InvalidArgumentError(
            f"No {kind} inputs found in SignatureDef: signature {signature.name!r} has "
            f"{', '.join(signature.inputs) or 'no inputs'}; expected one input Tensor, {INPUTS!r}"
        )
    if signature.inputs[INPUTS].dtype is not dtypes.string:
        raise InvalidArgumentError(
            f"the input of signature {signature.name!r} is of "
            f"{signature.inputs[INPUTS].dtype.name}; expected serialized tf.Examples (string)"
        )


def _check_matrix(
    name: str, value: NDArray[np.generic], dtype: np.dtype[np.generic], count: int
) -> None:
    if value.ndim != 2:
        raise InvalidArgumentError(
            f"Expected Tensor shape: [batch_size num_classes] but got {list(value.shape)}"
        )
    if value.dtype != dtype:
        expected = "DT_STRING" if dtype.hasobject else "DT_FLOAT"
        raise InvalidArgumentError(f"Expected {name} Tensor of {expected}. Got: {value.dtype}")
    if value.shape[0] != count:
        raise InvalidArgumentError(
            f"Expected {name} output batch size of {count}. Got: {value.shape[0]}"
        )


def _label(value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"a class is not valid UTF-8: {value[:100]!r}") from error
