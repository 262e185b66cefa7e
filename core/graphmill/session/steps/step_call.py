"""Run one step of a signature: convert the feeds, run, order the fetches (clause S7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import (
    InvalidValueError,
)
from graphmill.session.steps.step import run_step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.proto.config_pb2 import RunMetadata, RunOptions
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import CachedExecutors
    from graphmill.typing import Value


def execute(
    session: DirectSession,
    entry: CachedExecutors,
    values: Sequence[Any],
    options: RunOptions | None,
    run_metadata: RunMetadata | None,
    cancellation: CancellationManager | None = None,
) -> list[Value]:
    """Run one step with the caller's values; return the values of the fetches.

    Args:
        session: the session of the step.
        entry: the executors of its signature.
        values: the values of the feeds, in the caller's order.
        options: the `RunOptions` of the step.
        run_metadata: filled with the metadata of the step, if given.
        cancellation: cancels the step; a child of the session's manager, or None to use that.

    Raises:
        InvalidArgumentError: a fed value does not fit its tensor.
        OpError: the first error of the step.
    """
    executors = entry.executors
    if entry.feed_order is not None:
        values = [values[position] for position in entry.feed_order]
    converted = [
        convert(value) for convert, value in zip(executors.converters, values, strict=True)
    ]
    if _needs_options(session, options, run_metadata):
        from graphmill.session.steps.step_with_options import (  # few steps have options
            run_step_with_options,
        )

        results = run_step_with_options(
            session, executors, converted, options, run_metadata, cancellation
        )
    else:
        results = run_step(session, executors, converted, cancellation)
    if entry.fetch_order is not None:
        return [results[position] for position in entry.fetch_order]
    return results


def make_call(
    session: DirectSession,
    entry: CachedExecutors,
    rebuild: Callable[[list[Value]], Any],
    count: int,
    options: RunOptions | None,
) -> Callable[..., Any]:
    """Return a function of the fed values, with `run_metadata` and `cancellation` as keywords.

    Args:
        session: the session of the steps.
        entry: the executors of the signature.
        rebuild: builds the function's result from the values of the fetches.
        count: the number of fed values.
        options: how each call is run.
    """
    executors = entry.executors
    convert_one = executors.converters[0] if count == 1 else None
    is_plain = entry.feed_order is None and entry.fetch_order is None

    def call(
        *values: Any,
        run_metadata: RunMetadata | None = None,
        cancellation: CancellationManager | None = None,
    ) -> Any:
        if session.is_closed:
            session.check_open()
        if len(values) != count:
            raise InvalidValueError(
                f"the callable takes {count} values ({', '.join(executors.feeds) or 'none'}), "
                f"{len(values)} given"
            )
        if not is_plain or _needs_options(session, options, run_metadata):
            return rebuild(execute(session, entry, values, options, run_metadata, cancellation))
        if convert_one is not None:
            converted = [convert_one(values[0])]
        else:
            converted = [
                convert(value) for convert, value in zip(executors.converters, values, strict=True)
            ]
        return rebuild(run_step(session, executors, converted, cancellation))

    return call


def _needs_options(
    session: DirectSession, options: RunOptions | None, run_metadata: RunMetadata | None
) -> bool:
    return (
        options is not None
        or run_metadata is not None
        or session.has_timeout
        or session.host.step_observers is not None
    )
