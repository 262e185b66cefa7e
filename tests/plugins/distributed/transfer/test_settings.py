"""Settings of transfers in a server's configuration."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill_plugins.distributed.transfer.settings import TransferSettings


def config(**settings):
    made = graphmill.ConfigProto()
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    entry.parameter_map["idle_session_seconds"].f = 5  # another part's
    for name, value in settings.items():
        entry.parameter_map[name].CopyFrom(value)
    return made


def number(value):
    return graphmill.proto.AttrValue(i=value)


def test_missing_settings_have_defaults():
    assert TransferSettings.of(config()) == TransferSettings.of(None) == TransferSettings()


def test_settings_are_read_from_the_config():
    off = graphmill.proto.AttrValue(b=False)
    made = config(transfer_shared_memory=off, transfer_piece_bytes=number(1 << 20))
    assert TransferSettings.of(made) == TransferSettings(shared_memory=False, piece_bytes=1 << 20)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"transfer_no_such": number(1)}, "transfer_no_such = 1 is not a setting"),
        ({"transfer_pieces": number(1)}, "transfer_pieces = 1 .* transfer_pieces .bool"),
        (
            {"transfer_piece_bytes": number(1)},
            "piece_bytes of plugin distributed is 1; expected 65536",
        ),
        ({"transfer_max_mapped": number(-1)}, "max_mapped of plugin distributed is -1; expected 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings, problem):
    with pytest.raises(errors.InvalidArgumentError, match=problem):
        TransferSettings.of(config(**settings))
    pytest.importorskip("grpc")
    with pytest.raises(errors.InvalidArgumentError, match=problem):
        graphmill.Server(config=config(**settings))
