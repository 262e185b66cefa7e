"""`SessionStats`: counts of the work that a session has done so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.explain.compilation import COMPILED, STRAIGHT_LINE
from graphmill.explain.plain import as_plain
from graphmill.explain.tiers import calls_by_tier, clusters_of, num_interpreted_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.explain.compilation import CompileRecord
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counts over all signatures whose executors the session keeps.

    Attributes:
        num_steps: the number of steps, each of which is in one of the next three; partial runs are
            not counted.
        num_interpreted_steps: how many of them ran before the graph was built for compilation.
        num_hot_steps: how many ran after that, compiled or not.
        num_watched_steps: how many had watches (`debug_options`); they are interpreted.
        num_signatures: the number of signatures (feeds, fetches, targets) that have executors.
        num_hot_signatures: how many of them were built again for compilation.
        num_clusters: the number of clusters.
        straight_calls, compiled_calls: the calls of clusters that each tier has served.
        failed_checks: the calls of compiled programs that the interpreter repeated.
        num_compiled: the number of programs that were compiled.
        num_loaded: the number of programs from the persistent cache.
        num_refused: the number of attempts that the compiler refused.
        compile_seconds: the time of all attempts.
    """

    num_steps: int
    num_interpreted_steps: int
    num_hot_steps: int
    num_watched_steps: int
    num_signatures: int
    num_hot_signatures: int
    num_clusters: int
    straight_calls: int
    compiled_calls: int
    failed_checks: int
    num_compiled: int
    num_loaded: int
    num_refused: int
    compile_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        return plain


def session_stats(session: DirectSession) -> SessionStats:
    """Return the counts of a session; steps that run meanwhile may or may not be counted."""
    executors = session.cached_executors()
    clusters = clusters_of(executors)
    attempts = [
        attempt
        for cluster in clusters
        for signature in cluster.signatures
        for attempt in signature.compiles
    ]
    calls = calls_by_tier(executors)
    num_steps = _num_steps(executors)
    num_interpreted = sum(map(num_interpreted_steps, executors))
    num_watched = _num_steps(session.watched_executors())
    return SessionStats(
        num_steps=num_steps + num_watched,
        num_interpreted_steps=num_interpreted,
        num_hot_steps=num_steps - num_interpreted,
        num_watched_steps=num_watched,
        num_signatures=len(executors),
        num_hot_signatures=sum(one.hot_items is not None for one in executors),
        num_clusters=len(clusters),
        straight_calls=calls[STRAIGHT_LINE],
        compiled_calls=calls[COMPILED],
        failed_checks=calls["checks_failed"],
        num_compiled=_count(attempts, COMPILED),
        num_loaded=_count(attempts, "loaded"),
        num_refused=_count(attempts, "refused"),
        compile_seconds=sum(attempt.seconds for attempt in attempts),
    )


def _num_steps(executors: Iterable[ExecutorsAndKeys]) -> int:
    return sum(one.step_count for one in executors)


def _count(attempts: Iterable[CompileRecord], outcome: str) -> int:
    return sum(attempt.outcome == outcome for attempt in attempts)
