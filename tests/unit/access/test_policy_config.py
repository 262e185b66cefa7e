"""The policy of a configuration, and the default for loaded models."""

from __future__ import annotations

import pytest

from graphmill import proto
from graphmill.access.policy_config import rules_of, with_access
from graphmill.errors import InvalidArgumentError


def config(policy: str = "", *allow: str) -> proto.ConfigProto:
    return proto.ConfigProto(graphmill={"policy": policy, "allow": allow})


@pytest.mark.parametrize(
    ("message", "options", "expected"),
    [
        (config(), {}, None),
        (config(), {"is_loaded": True}, []),
        (config("trusted"), {"is_loaded": True}, None),
        (config("pure"), {}, []),
        (config("", "net"), {}, ["net"]),
        (config("", "net"), {"is_loaded": True}, ["net"]),
        (config("", "net"), {"allow": ["python"]}, ["python"]),
        (config("", "net"), {"trust": True}, None),
        (config("", "net"), {"trust": False}, ["net"]),
        (config("trusted"), {"trust": False}, []),
        (config("trusted"), {"allow": []}, []),
        (config(), {"trust": False}, []),
        (config(), {"is_loaded": True, "model_folder": "/model"}, ["fs.read:/model"]),
        (config("trusted"), {"is_loaded": True, "model_folder": "/model"}, None),
        (config("", "net"), {"model_folder": "/model"}, ["fs.read:/model", "net"]),
    ],
)
def test_rules_follow_from_configuration_arguments_and_origin(
    message: proto.ConfigProto, options: dict[str, object], expected: list[str] | None
) -> None:
    before = message.SerializeToString()
    found = rules_of(with_access(message, **options))  # type: ignore[arg-type]
    assert (None if found is None else found.texts()) == expected
    assert message.SerializeToString() == before


def test_contradictions_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="leave one of them out"):
        with_access(config(), ["net"], trust=True)
    with pytest.raises(InvalidArgumentError, match="leave one of them out"):
        rules_of(config("trusted", "net"))
    with pytest.raises(InvalidArgumentError, match="did you mean 'trusted'"):
        rules_of(config("trust"))
