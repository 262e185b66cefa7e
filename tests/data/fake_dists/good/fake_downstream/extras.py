"""A pass, a transport and a command, as small as they get."""

from __future__ import annotations


def say_hello(graph, options):
    options.config.append(len(graph))


class CarrierTransport:
    pass


def weigh():
    return "heavy"
