"""The access policy in a session's configuration, and the default for loaded graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.access.rules import AccessRules
from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.proto.config_pb2 import ConfigProto

PURE: Final = "pure"
TRUSTED: Final = "trusted"
_POLICIES: Final = (PURE, TRUSTED)


def rules_of(config: ConfigProto) -> AccessRules | None:
    """Return the rules of a configuration; None if it has none.

    Raises:
        InvalidArgumentError: the policy is unknown, a rule is invalid, or rules contradict a policy
            that allows everything.
    """
    options = config.graphmill
    policy, allow = options.policy, options.allow
    if not policy and not allow:
        return None
    if policy and policy not in _POLICIES:
        raise InvalidArgumentError(
            f"graphmill.policy: unknown policy {policy!r}{suggest(policy, _POLICIES)}; policies "
            f"are {' and '.join(_POLICIES)}"
        )
    if policy == TRUSTED:
        if allow:
            raise InvalidArgumentError(
                f"graphmill.policy is {TRUSTED!r}, which allows everything, but graphmill.allow "
                f"has the rules {list(allow)}; leave one of them out"
            )
        return None
    return AccessRules.parse(allow)


def is_decided(config: ConfigProto) -> bool:
    """Return whether a configuration sets the policy under which its graph runs."""
    return bool(config.graphmill.policy or config.graphmill.allow)


def with_access(
    config: ConfigProto,
    allow: Iterable[str] | None = None,
    trust: bool | None = None,
    *,
    is_loaded: bool = False,
    model_folder: str = "",
) -> ConfigProto:
    """Return a configuration with the policy for a graph; the given one is not changed.

    Args:
        config: the configuration.
        allow: rules; None for those of the configuration.
        trust: True allows everything, False only what the rules allow; None decides by the
            configuration, or else by `is_loaded`.
        is_loaded: whether the graph was loaded from a file.
        model_folder: the folder of the model, which it may read; "" for none.

    Raises:
        InvalidArgumentError: a rule is invalid, or rules contradict `trust`.
    """
    is_as_configured = is_decided(config) or not is_loaded
    needs_folder = bool(model_folder) and rules_of(config) is not None
    if allow is None and trust is None and is_as_configured and not needs_folder:
        return config
    copy = type(config)()
    copy.CopyFrom(config)
    options = copy.graphmill
    if allow is not None:
        options.policy = PURE
        del options.allow[:]
        options.allow.extend(AccessRules.parse(allow).texts())
        if trust:
            raise InvalidArgumentError(
                "trust=True allows everything, but there are rules as well: "
                f"allow={list(options.allow)}; leave one of them out"
            )
    elif trust:
        options.policy = TRUSTED
        del options.allow[:]
    elif trust is False or not is_decided(config):
        options.policy = PURE
    rules = rules_of(copy)
    if rules is not None:
        own = AccessRules.parse([f"fs.read:{model_folder}"]).rules if model_folder else ()
        del options.allow[:]
        options.policy = PURE
        options.allow.extend(AccessRules((*own, *rules.rules)).texts())
    return copy
