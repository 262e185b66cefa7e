"""`graphmill forward`: let clients without TLS use a server that requires TLS."""

from __future__ import annotations

import click

from graphmill.spi.cluster import Settings, common_options
from graphmill_plugins._server.address import parse_address
from graphmill_plugins._server.event_log import write_events
from graphmill_plugins._server.ready_line import print_ready
from graphmill_plugins._server.stop_signals import stop_signal
from graphmill_plugins.distributed.server.forwarder import Forwarder, tls_context


@click.command()
@click.argument("target")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    help="The address for clients without TLS; port 0 for a free one. There is no access control.",
)
@common_options
@click.make_pass_decorator(Settings, ensure=True)
def forward(settings: Settings, target: str, listen: str) -> None:
    """Forward connections without TLS to TARGET, grpc://HOST:PORT, with TLS.

    The certificates are those of the environment: GRAPHMILL_TLS_CA, GRAPHMILL_TLS_CERTIFICATE,
    GRAPHMILL_TLS_PRIVATE_KEY. Prints one line, READY HOST:PORT, and runs until SIGTERM or SIGINT.
    """
    write_events("warning", "text")
    server = parse_address(target.removeprefix("grpc://"))
    with (
        stop_signal() as stop,
        Forwarder(parse_address(listen), server, tls_context()) as forwarder,
    ):
        print_ready([str(forwarder.address)], as_json=settings.as_json)
        stop.wait()
