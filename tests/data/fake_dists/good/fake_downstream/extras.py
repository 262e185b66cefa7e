"""A minimal pass, transport, factories and command."""

from __future__ import annotations

import fake_downstream
from graphmill.errors import UnavailableError
from graphmill.spi import IntraProcessRendezvous, Transport, VariantCodec, VariantData
from graphmill.spi.cluster import ServerFactory, SessionFactory


def say_hello(graph, options):
    fake_downstream.SEEN.append(("hello", sorted(node.name for node in graph)))


class RdmaTransport(Transport):
    def new_rendezvous(self, step_id):
        fake_downstream.SEEN.append(("carried", step_id))
        return IntraProcessRendezvous()


PAIR_CODEC = VariantCodec(tuple, lambda pair: VariantData(b"", pair, ()), lambda data: data.tensors)


def model_size():
    return "heavy"


class QuicSessionFactory(SessionFactory):
    def new_session(self, target, config, host):
        fake_downstream.SEEN.append(("session", target))
        raise UnavailableError(f"{target} cannot be reached")

    def reset(self, target, containers, config, host):
        fake_downstream.SEEN.append(("reset", target))


class QuicServerFactory(ServerFactory):
    def new_server(self, server_def, host):
        fake_downstream.SEEN.append(("server", server_def.job_name))
        raise UnavailableError("the port is in use")
