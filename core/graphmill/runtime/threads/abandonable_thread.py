"""Run an executor in a thread that can be abandoned if `run_async` never returns.

Python cannot stop a call from outside. So a step that has a deadline, and an executor that does not
promise to honour deadlines, runs in a separate thread. The caller waits for the end of the step, or
for the end of the grace period after its cancellation; a call that never returns is abandoned with
its thread.
"""

from __future__ import annotations

import contextvars
import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, Literal

from graphmill.runtime.steps import cancel_grace
from graphmill.runtime.steps.step_runner import get_in_main_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.runtime.executor import Executor, ExecutorArgs

    StepEvent = Literal["ended", "cancelled"]

RUN_ASYNC_GRACE_SECONDS: Final = 10.0
"""Seconds between the cancellation and giving up on `run_async`, in which a kernel may run."""


def run_in_abandonable_thread(
    run: Callable[[], None], args: ExecutorArgs, executors: Sequence[Executor]
) -> None:
    """Call `run` in a separate thread and wait for it; raise what it raises.

    Args:
        run: drives the run to its end.
        args: the arguments of the run.
        executors: the executors of the run, for the message.

    Raises:
        OpError: the run was cancelled and has not ended within the grace period; the error has the
            class of the cancellation error, and names the executors and their distributions.
    """
    events: SimpleQueue[StepEvent] = SimpleQueue()
    failures: list[BaseException] = []
    context = contextvars.copy_context()

    def drive() -> None:
        from graphmill.runtime.steps.step_runner import running  # few steps need the thread

        args.runner.owner = threading.get_ident()
        try:
            with running(args):
                context.run(run)
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            failures.append(error)
        events.put("ended")

    cancellation = args.parent_cancellation
    token = None
    if cancellation is not None:
        token = cancellation.register(lambda: events.put("cancelled"))
    threading.Thread(target=drive, daemon=True, name=f"graphmill-step-{args.step_id}").start()
    try:
        if (cancellation is not None and token is None) or _next(events) == "cancelled":
            events.get(timeout=RUN_ASYNC_GRACE_SECONDS)
    except Empty:
        raise cancel_grace.not_ended(
            args, executors, RUN_ASYNC_GRACE_SECONDS, "`run_async` has not returned"
        ) from None
    finally:
        if cancellation is not None:
            cancellation.deregister(token)
    if failures:
        raise failures[0]


def _next(events: SimpleQueue[StepEvent]) -> StepEvent:
    is_main = threading.current_thread() is threading.main_thread()
    return get_in_main_thread(events) if is_main else events.get()
