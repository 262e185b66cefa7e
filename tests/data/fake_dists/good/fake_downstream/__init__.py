"""A third-party plugin that uses every hook; it registers names only and imports nothing.

Its op `Downstream>MulAdd3` (x * y + z, times the attr `scale`) has a kernel for any namespace.
"""

from __future__ import annotations

import graphmill

SEEN: list[tuple[object, ...]] = []
"""The arguments of the life-cycle hooks' calls."""


@graphmill.hookimpl
def graphmill_register_ops(ops):
    from fake_downstream.ops import MUL_ADD_3

    ops.add(MUL_ADD_3)


@graphmill.hookimpl
def graphmill_register_kernels(kernels):
    kernels.add_module("fake_downstream.kernels", ops=["Downstream>MulAdd3"])


@graphmill.hookimpl
def graphmill_register_lowerings(lowerings):
    lowerings.add_module("fake_downstream.lowerings", ops=["Downstream>MulAdd3"])


@graphmill.gradient("Downstream>MulAdd3")
def mul_add_3_gradient(op, dy):
    x, y, _ = op.inputs
    scale = op.get_attr("scale")
    return [dy * y * scale, dy * x * scale, dy * scale]


@graphmill.hookimpl
def graphmill_register_gradients(gradients):
    gradients.add(mul_add_3_gradient)


@graphmill.hookimpl
def graphmill_register_devices(devices):
    devices.add("NPU", "fake_downstream.device:NpuFactory", priority=150)


@graphmill.hookimpl
def graphmill_register_executors(executors):
    executors.add("SEQUENTIAL", "fake_downstream.executor:SequentialExecutorFactory")


@graphmill.hookimpl
def graphmill_register_passes(passes):
    passes.add("say_hello", "fake_downstream.extras:say_hello", phase="PRE_PLACEMENT", order=5)


@graphmill.hookimpl
def graphmill_register_transports(transports):
    transports.add("rdma", "fake_downstream.extras:RdmaTransport")


@graphmill.hookimpl
def graphmill_register_variants(variants):
    variants.add("Downstream>Pair", "fake_downstream.extras:PAIR_CODEC")


@graphmill.hookimpl
def graphmill_register_session_factories(session_factories):
    session_factories.add("quic", "fake_downstream.extras:QuicSessionFactory")


@graphmill.hookimpl
def graphmill_register_servers(servers):
    servers.add("quic", "fake_downstream.extras:QuicServerFactory")


@graphmill.hookimpl
def graphmill_register_commands(commands):
    commands.add("model-size", "fake_downstream.extras:model_size")


@graphmill.hookimpl
def graphmill_register_exporters(exporters):
    exporters.add("openvino", "fake_downstream.extras:model_size")


@graphmill.hookimpl
def graphmill_register_conversions(target, conversions):
    if target == "onnx":
        conversions.add("Downstream>Twice", "fake_downstream.extras:model_size")


@graphmill.hookimpl
def graphmill_configure(host):
    SEEN.append(("configure", host))


@graphmill.hookimpl
def graphmill_step_started(step):
    SEEN.append(("started", step))


@graphmill.hookimpl
def graphmill_step_finished(step, seconds, error):
    SEEN.append(("finished", step, seconds, error))
