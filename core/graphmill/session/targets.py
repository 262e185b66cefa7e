"""Targets of sessions: "" is this process; for others, a plugin supplies a session factory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import proto
from graphmill.errors import NotFoundError
from graphmill.plugin.host import default_host
from graphmill.runtime.session_interface import scheme_of
from graphmill.session.direct_session import DirectSession
from graphmill.session.options import as_message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host
    from graphmill.proto.config_pb2 import ConfigProto
    from graphmill.runtime.session_interface import SessionFactory, SessionInterface


def reset(
    target: str = "",
    containers: Iterable[str] | None = None,
    config: Any = None,
    *,
    host: Host | None = None,
) -> None:
    """Clear resource containers of all sessions of this process, and close these (clause S10).

    Args:
        target: empty, or the target of a server, whose sessions are closed.
        containers: names of containers; None or empty for the default container.
        config: a `ConfigProto`; its `device_filters` select tasks of a cluster.
        host: the host whose sessions are closed; by default the default host.

    Raises:
        NotFoundError: no plugin supports the target.
        OpError: the server cannot be reached, or refuses.
    """
    config = as_message(proto.ConfigProto, config, "config")
    host = host or default_host()
    if target:
        session_factory(target, host).reset(target, list(containers or ()), config, host)
        return
    sessions = host.sessions.snapshot()
    for session in sessions:
        session.reset(containers or ())
    for session in sessions:
        session.close()


def new_session(target: str, config: ConfigProto, host: Host) -> SessionInterface:
    """Return a new session for a target.

    Raises:
        NotFoundError: no plugin supports the target.
    """
    if not target:
        return DirectSession(host, config)
    return session_factory(target, host).new_session(target, config, host)


def session_factory(target: str, host: Host) -> SessionFactory:
    """Return the session factory of a target.

    Raises:
        NotFoundError: no plugin registered a factory for the target's scheme.
    """
    scheme = scheme_of(target)
    if scheme not in host.session_factories:
        from pathlib import Path

        schemes = ", ".join(f"'{name}://...'" for name in host.session_factories.keys())  # noqa: SIM118 - a Registry
        error = NotFoundError(
            f"no session factory for target {target!r}; known are '' (this process)"
            f"{', ' if schemes else ''}{schemes}"
        )
        if "://" not in target and Path(target).exists():
            error.add_note(f"try: Session(graph={target!r}), because it is a file")
        raise error
    return host.session_factories.get(scheme)
