"""A plugin with a kernel and a command."""

from __future__ import annotations

from graphmill.spi import hookimpl


@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add_module("graphmill_hello.kernels", ops=["Relu6"])


@hookimpl
def graphmill_register_commands(commands):
    commands.add("hello", "graphmill_hello.command:hello")
