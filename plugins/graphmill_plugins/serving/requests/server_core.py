"""`ServerCore`: the state that all APIs of a server share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from graphmill_plugins.serving.models.model_manager import ModelManager
from graphmill_plugins.serving.monitoring.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill_plugins.serving.models.model_version import ModelVersion
    from graphmill_plugins.serving.models.served_signature import Arrays, ServedSignature
    from graphmill_plugins.serving.server_options import ServerOptions


class ServerCore:
    """The models, limits and metrics of a server.

    Args:
        options: those of the server.

    Attributes:
        options: those of the server.
        manager: the models.
        metrics: counts of requests.
        is_draining: whether the server is ending.
    """

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.metrics = RequestMetrics()
        self.manager = ModelManager(options, self.metrics.count_batch)
        self.is_draining = False

    @property
    def is_ready(self) -> bool:
        """Whether requests to each model can be answered."""
        return not self.is_draining and self.manager.is_ready

    async def run(
        self,
        version: ModelVersion,
        signature: ServedSignature,
        inputs: Arrays,
        outputs: Sequence[str] = (),
        deadline: float | None = None,
    ) -> Arrays:
        """Run a signature of a model.

        Args:
            version: the version of the model.
            signature: one of its signatures.
            inputs: arrays by name.
            outputs: the outputs to compute; all if empty.
            deadline: when the client stops waiting (`time.monotonic`); None for the server's limit.

        Raises:
            InvalidArgumentError: an input or output does not fit the signature.
            ResourceExhaustedError: too many requests wait.
            DeadlineExceededError: it took too long.
            OpError: the model failed.
        """
        timeout = self.options.timeout_seconds
        if deadline is not None:
            timeout = min(timeout, deadline - time.monotonic())
        arrays = signature.convert(inputs)
        return await version.run(signature, arrays, signature.select_outputs(outputs), timeout)
