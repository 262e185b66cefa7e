"""A pass, a transport and a command, as small as they get."""

from __future__ import annotations

import fake_downstream


def say_hello(graph, options):
    fake_downstream.SEEN.append(("hello", sorted(node.name for node in graph)))


class CarrierTransport:
    pass


def weigh():
    return "heavy"
