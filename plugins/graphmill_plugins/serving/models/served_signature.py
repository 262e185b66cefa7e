"""`ServedSignature`: a signature that many threads call with arrays, each with a time limit."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
    suggest,
)
from graphmill.spi.cluster import feed_converter
from graphmill.spi.models import why_rows_mix
from graphmill.spi.protos import proto
from graphmill_plugins.serving.models.waiting_ops import may_wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from graphmill.spi import Host
    from graphmill.spi.models import SavedModel, TensorSpec

    Arrays = dict[str, NDArray[np.generic]]

DEFAULT_SIGNATURE: Final = "serving_default"
_MAX_CALLABLES: Final = 64
"""The number of selections of outputs for which a signature caches a callable."""


class ServedSignature:
    """A signature of a loaded model.

    Args:
        model: the model.
        name: the key of the signature.
        timeout_seconds: the time limit of a call that may block on something other than
            computation.
        host: has the kernels.

    Attributes:
        name: the key of the signature.
        method_name: its method in the model, such as "tensorflow/serving/predict".
        inputs, outputs: the tensors by name; sorted.
        may_wait: whether a call may block on something other than computation, such as a queue.

    Threads: any may call it; `_lock` guards the callables.

    Raises:
        UnimplementedError: an input or output is a sparse or other composite tensor.
    """

    def __init__(self, model: SavedModel, name: str, timeout_seconds: float, host: Host) -> None:
        signature = model.signatures[name]
        self.name = name
        self.method_name = signature.method_name
        for tensor in (*signature.inputs.values(), *signature.outputs.values()):
            if tensor.is_composite:
                raise UnimplementedError(
                    f"{tensor.name!r} of signature {name!r} is a composite tensor, which the APIs "
                    "of TensorFlow Serving cannot express; export a signature with its parts"
                )
        self.inputs: dict[str, TensorSpec] = {
            key: tensor.parts[0] for key, tensor in signature.inputs.items()
        }
        self.outputs: dict[str, TensorSpec] = {
            key: tensor.parts[0] for key, tensor in signature.outputs.items()
        }
        self._all_outputs = tuple(self.outputs)
        self._defaults = signature.defaults
        self._model = model
        tensors = [spec.tensor for spec in self.outputs.values()]
        self.may_wait = may_wait(model.meta_graph, tensors, host)
        # A callable with a timeout is slower: only steps that may never end have one.
        milliseconds = max(1, round(timeout_seconds * 1000))
        self._options = proto.RunOptions(timeout_in_ms=milliseconds) if self.may_wait else None
        self._converters = {
            key: feed_converter(f"{key} ({spec.tensor})", spec.dtype, spec.shape)
            for key, spec in self.inputs.items()
        }
        self._host = host
        self._lock = threading.Lock()
        self._callables: dict[tuple[str, ...], Callable[..., list[Any]]] = {}

    def why_rows_mix(self) -> str:
        """Return why requests cannot be combined into a batch; "" if they certainly can."""
        return why_rows_mix(
            self._model.session.graph,
            [spec.tensor for spec in self.inputs.values()],
            [spec.tensor for spec in self.outputs.values()],
            self._host.ops,
        )

    def check_inputs(self, names: Iterable[str]) -> None:
        """Refuse names that are not those of the inputs.

        Raises:
            InvalidArgumentError: one is missing or unknown.
        """
        sent = set(names)
        missing = sorted(self.inputs.keys() - sent - self._defaults.keys())
        extra = sorted(sent - self.inputs.keys())
        if missing or extra:
            raise InvalidArgumentError(
                f"input size does not match signature: {len(sent)}!={len(self.inputs)} "
                f"len({{{','.join(sorted(sent))}}}) != len({{{','.join(self.inputs)}}}). "
                f"Sent extra: {{{','.join(extra)}}}. "
                f"Missing but required: {{{','.join(missing)}}}."
            )

    def select_outputs(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the outputs of a request; all of them for no names.

        Raises:
            InvalidArgumentError: a name is unknown, or occurs twice.
        """
        if not names:
            return self._all_outputs
        selected = tuple(names)
        for position, name in enumerate(selected):
            if name not in self.outputs:
                raise InvalidArgumentError(
                    f"output tensor alias not found in signature: {name} Outputs expected to be in "
                    f"the set {{{','.join(self.outputs)}}}.{suggest(name, self.outputs)}"
                )
            if name in selected[:position]:
                raise InvalidArgumentError(f"duplicate output tensor alias: {name}")
        return selected

    def convert(self, inputs: Mapping[str, Any]) -> Arrays:
        """Return the arrays of a request, checked against the types and shapes of the inputs.

        Raises:
            InvalidArgumentError: an input is missing, unknown, or of another type or shape.
        """
        if inputs.keys() != self.inputs.keys():
            self.check_inputs(inputs)
        return {
            key: convert(inputs[key] if key in inputs else self._defaults[key])
            for key, convert in self._converters.items()
        }

    def run(self, inputs: Arrays, outputs: tuple[str, ...]) -> Arrays:
        """Run the signature.

        Args:
            inputs: the arrays by name, as `convert` returns them.
            outputs: the names of the outputs, as `select_outputs` returns them.

        Raises:
            DeadlineExceededError: it waited longer than it may.
            OpError: the error of the first failing node.
        """
        call = self._callables.get(outputs)
        if call is None:
            call = self._new_callable(outputs)
        values = call(*[inputs[key] for key in self.inputs])
        return dict(zip(outputs, values, strict=True))

    def _new_callable(self, outputs: tuple[str, ...]) -> Callable[..., list[Any]]:
        feeds = [spec.tensor for spec in self.inputs.values()]
        fetches = [self.outputs[name].tensor for name in outputs]
        call = self._model.session.make_callable(fetches, feeds, options=self._options)
        with self._lock:
            if len(self._callables) >= _MAX_CALLABLES:
                self._callables.pop(next(iter(self._callables)))
            return self._callables.setdefault(outputs, call)


def find_signature(
    signatures: Mapping[str, ServedSignature | UnimplementedError], name: str
) -> ServedSignature:
    """Return a signature by name; an empty name is that of the default signature.

    Raises:
        FailedPreconditionError: there is none of this name.
        UnimplementedError: its tensors cannot be expressed.
    """
    signature = signatures.get(name or DEFAULT_SIGNATURE)
    if signature is None:
        raise FailedPreconditionError(
            f'Serving signature key "{name or DEFAULT_SIGNATURE}" not found.'
            f"{suggest(name or DEFAULT_SIGNATURE, signatures)} The model has: "
            + (", ".join(signatures) or "none")
        )
    if isinstance(signature, UnimplementedError):
        raise UnimplementedError(signature.message)
    return signature
