"""A pass, a transport and a command, as small as they get."""

from __future__ import annotations

import fake_downstream
from graphmill.spi import IntraProcessRendezvous, Transport


def say_hello(graph, options):
    fake_downstream.SEEN.append(("hello", sorted(node.name for node in graph)))


class CarrierTransport(Transport):
    def new_rendezvous(self, step_id):
        fake_downstream.SEEN.append(("carried", step_id))
        return IntraProcessRendezvous()


def weigh():
    return "heavy"
