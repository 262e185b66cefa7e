"""`ModelVersion`: one version of a model, from the start of its loading until it is unloaded."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from graphmill.errors import OpError, UnimplementedError
from graphmill.spi.compilers import default_host
from graphmill.spi.models import load
from graphmill_plugins.serving.models.served_signature import ServedSignature, find_signature
from graphmill_plugins.serving.models.warmup import warm_up
from graphmill_plugins.serving.requests.batch_queue import BatchQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi.models import SavedModel
    from graphmill_plugins.serving.models.served_signature import Arrays
    from graphmill_plugins.serving.requests.batching_options import BatchingOptions
    from graphmill_plugins.serving.server_options import ServerOptions


class State(Enum):
    """The states of `ModelVersionStatus.State`, by their numbers."""

    START = 10
    LOADING = 20
    AVAILABLE = 30
    UNLOADING = 40
    END = 50


class ModelVersion:
    """One version of a model.

    Args:
        model: the name of the model.
        number: the version.
        path: its folder.
        options: those of the server.
        on_batch: is called with the number of rows of each batch that ran.

    Attributes:
        state: what it is doing.
        error: why it could not be loaded; None if it could.
        signatures: the signatures by name, while it is available.
        unbatched: why the requests to some signatures are run alone, by the signature's name.
        attempts: how often loading failed.
        retry_at: when to load it again (`time.monotonic`), after a failure.

    Threads: `load` is for any thread, all other methods for that of the event loop.
    """

    def __init__(
        self,
        model: str,
        number: int,
        path: str,
        options: ServerOptions,
        on_batch: Callable[[int], None],
    ) -> None:
        self.model = model
        self.number = number
        self.path = path
        self.state = State.START
        self.error: OpError | None = None
        self.attempts = 0
        self.retry_at = 0.0
        self.saved_model: SavedModel | None = None
        self.signatures: dict[str, ServedSignature | UnimplementedError] = {}
        self.unbatched: dict[str, str] = {}
        self._options = options
        self._on_batch = on_batch
        self._queues: dict[str, BatchQueue] = {}
        self._in_flight = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self._executor: ThreadPoolExecutor | None = None

    def load(self) -> tuple[SavedModel, int]:
        """Load the model and run its warm-up requests; return the model and their number.

        Raises:
            OpError: that failed.
        """
        allow, trust = list(self._options.allow) or None, self._options.trust
        model = load(self.path, tags=_tags(self._options.tags), allow=allow, trust=trust)
        try:
            self.signatures = {
                name: self._signature(model, name) for name in sorted(model.signatures)
            }
            self.unbatched = self._find_unbatched()
            return model, warm_up(self.path, self.signatures)
        except BaseException:
            model.close()
            raise

    def open(self, model: SavedModel) -> None:
        """Serve the loaded model from now on."""
        self.saved_model = model
        self.error = None
        self.state = State.AVAILABLE
        self._executor = ThreadPoolExecutor(
            self._options.batching.num_threads, f"graphmill-{self.model}-{self.number}"
        )

    def fail(self, error: OpError, wait_seconds: float) -> None:
        """Record that loading failed, and when to try again."""
        self.state = State.END
        self.error = error
        self.signatures = {}
        self.attempts += 1
        self.retry_at = time.monotonic() + wait_seconds

    def signature(self, name: str) -> ServedSignature:
        """Return a signature; see `find_signature`."""
        return find_signature(self.signatures, name)

    async def run(
        self,
        signature: ServedSignature,
        inputs: Arrays,
        outputs: tuple[str, ...],
        timeout: float,
    ) -> Arrays:
        """Run a signature, maybe in a batch; see `BatchQueue.submit`.

        The model is not unloaded before this has ended.
        """
        queue = self._queues.get(signature.name)
        if queue is None:
            queue = self._new_queue(signature)
        self._in_flight += 1
        self._drained.clear()
        try:
            return await queue.submit(inputs, outputs, timeout)
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._drained.set()

    def batching_of(self, signature: ServedSignature) -> BatchingOptions:
        """Return how requests to a signature are queued and combined."""
        options = self._options.batching
        if signature.name in self.unbatched:
            return options.without_batches()
        # A request to a large model that nobody asked to batch should not become larger.
        return replace(options, pads_alone=False) if self._options.batches is None else options

    def queue_length(self) -> int:
        """Return the number of waiting requests."""
        return sum(map(len, self._queues.values()))

    def give_up(self) -> None:
        """Fail all requests in progress, and later ones."""
        for queue in self._queues.values():
            queue.close()

    async def unload(self, grace: float | None) -> None:
        """Wait for the requests in progress, then free the model.

        Args:
            grace: after how many seconds requests in progress are cancelled; None for never.
        """
        self.state = State.UNLOADING
        with contextlib.suppress(TimeoutError):  # closing the session cancels its steps
            await asyncio.wait_for(self._drained.wait(), grace)
        self.give_up()
        model, executor = self.saved_model, self._executor
        if model is not None:
            await asyncio.to_thread(model.close)
        if executor is not None:
            await asyncio.to_thread(executor.shutdown)
        self.saved_model, self._executor = None, None
        self.signatures, self._queues = {}, {}
        self.state = State.END

    def _signature(self, model: SavedModel, name: str) -> ServedSignature | UnimplementedError:
        try:
            return ServedSignature(model, name, self._options.timeout_seconds, default_host())
        except UnimplementedError as error:  # other signatures may be served nevertheless
            return error

    def _find_unbatched(self) -> dict[str, str]:
        """Return why the requests to some signatures are run alone, by the signature's name."""
        served = [one for one in self.signatures.values() if isinstance(one, ServedSignature)]
        batches = self._options.batches
        if batches is not None:
            return {} if batches else dict.fromkeys((one.name for one in served), "it is off")
        reasons = {signature.name: signature.why_rows_mix() for signature in served}
        return {name: reason for name, reason in reasons.items() if reason}

    def _new_queue(self, signature: ServedSignature) -> BatchQueue:
        assert self._executor is not None, "a version that is not loaded gets no requests"
        queue = self._queues[signature.name] = BatchQueue(
            f"signature {signature.name!r} of model {self.model!r}, version {self.number}",
            signature.run,
            self.batching_of(signature),
            self._executor,
            self._on_batch,
            may_wait=signature.may_wait,
        )
        return queue


def _tags(text: str | None) -> Iterable[str] | None:
    return None if text is None else [tag for tag in text.split(",") if tag]
