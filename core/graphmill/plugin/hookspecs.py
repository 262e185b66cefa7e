"""The hooks that plugins implement: their arguments, and when each is called.

Implement a hook as a function marked `@graphmill.hookimpl`, with only the arguments that it needs.
While a `Host` is assembled, the registration hooks are called in the order below, each for all
plugins in turn, then `graphmill_configure`. No hook is called per node, or while a lock is held.

If a hook raises, its plugin is disabled with everything that it registered, and a warning and
`graphmill plugins` report it. The error propagates from a required plugin: one that the program
passes to `Host`, or one that is installed with graphmill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.plugin.markers import hookspec

if TYPE_CHECKING:
    from graphmill.errors import OpError
    from graphmill.plugin.host import Host
    from graphmill.plugin.registrars import (
        GradientRegistrar,
        KernelRegistrar,
        LoweringRegistrar,
        OpRegistrar,
        PassRegistrar,
        Registrar,
    )
    from graphmill.plugin.step_observers import StepInfo
    from graphmill.proto.config_pb2 import RunMetadata
    from graphmill.runtime.devices.device import DeviceFactory
    from graphmill.runtime.devices.transport import Transport
    from graphmill.runtime.executor import ExecutorFactory
    from graphmill.runtime.server_interface import ServerFactory
    from graphmill.runtime.session_interface import SessionFactory
    from graphmill.runtime.variants.variant_codec import VariantCodec

# Registration: what a plugin supplies.


@hookspec
def graphmill_register_ops(ops: OpRegistrar) -> None:
    """Register ops that TensorFlow does not have.

    When: first, while a host is assembled.
    How often: once for each host.
    May change: `ops`, by `add`, each with its shape function, if it has one. TensorFlow's ops are
        already registered.
    Threads: the one that assembles the host.

    Example::

        @graphmill.hookimpl
        def graphmill_register_ops(ops):
            ops.add(
                OpDef(
                    "Downstream>Twice",
                    input_args=(ArgDef("x", dtypes.float32),),
                    output_args=(ArgDef("y", dtypes.float32),),
                ),
                shape=lambda op: op.shape("x"),
            )
    """


@hookspec
def graphmill_register_kernels(kernels: KernelRegistrar) -> None:
    """Register kernels, for ops of any plugin or of TensorFlow.

    When: after all plugins have registered ops.
    How often: once for each host.
    May change: `kernels`, by `add` for imported kernels, or better by `add_module` and `add_family`
        for modules that are imported when one of their ops is first needed.
    Threads: the one that assembles the host. Kernel modules are imported later, by the thread that
        needs them.

    Example::

        @graphmill.hookimpl
        def graphmill_register_kernels(kernels):
            kernels.add_module("downstream.kernels", ops=["Downstream>Twice"])
    """


@hookspec
def graphmill_register_lowerings(lowerings: LoweringRegistrar) -> None:
    """Register lowerings: how compilers compute ops whose kernels cannot simply be traced.

    When: after all plugins have registered kernels.
    How often: once for each host.
    May change: `lowerings`, by `add` for imported lowerings, or better by `add_module` for modules
        that are imported when one of their ops is first compiled. A lowering applies to nodes whose
        kernel comes from the same distribution.
    Threads: the one that assembles the host. Modules are imported later, by the thread that
        compiles.

    Example::

        @graphmill.spi.lowering("Downstream>Root", check=lambda xp, x: xp.all(x >= 0))
        def root(trace, x):
            return trace.xp.sqrt(x)


        @graphmill.hookimpl
        def graphmill_register_lowerings(lowerings):
            lowerings.add(root)
    """


@hookspec
def graphmill_register_gradients(gradients: GradientRegistrar) -> None:
    """Register gradient functions, for ops of any plugin or of TensorFlow.

    When: after all plugins have registered lowerings.
    How often: once for each host.
    May change: `gradients`, by `add` for imported functions, or by `add_family` for modules that
        are imported when an op of a family is first differentiated. Of two functions for one op,
        the one with the higher `priority` wins; built-in ones have -1, the default is 0.
    Threads: the one that assembles the host. Gradient modules are imported later, by the thread
        that needs them.

    Example::

        @graphmill.gradient("Downstream>Twice")
        def twice_gradient(op, dy):
            return dy * 2


        @graphmill.hookimpl
        def graphmill_register_gradients(gradients):
            gradients.add(twice_gradient)
    """


@hookspec
def graphmill_register_devices(devices: Registrar[DeviceFactory]) -> None:
    """Register device types, each with its device factory.

    When: after all plugins have registered gradients.
    How often: once for each host.
    May change: `devices`, by `add`. Of two factories for one type, the one with the higher priority
        wins.
    Threads: the one that assembles the host. Creating the first session imports and instantiates
        the factories.

    Example::

        @graphmill.hookimpl
        def graphmill_register_devices(devices):
            devices.add("NPU", "downstream.device:NpuFactory", priority=150)
    """


@hookspec
def graphmill_register_executors(executors: Registrar[ExecutorFactory]) -> None:
    """Register executors, under names that `ConfigProto.experimental.executor_type` selects.

    When: after all plugins have registered devices.
    How often: once for each host.
    May change: `executors`, by `add`. "" and "DEFAULT" are the built-in executor.
    Threads: the one that assembles the host.

    Example::

        @graphmill.hookimpl
        def graphmill_register_executors(executors):
            executors.add("COUNTING", "downstream.executor:CountingExecutorFactory")
    """


@hookspec
def graphmill_register_passes(passes: PassRegistrar) -> None:
    """Register graph passes.

    When: after all plugins have registered executors.
    How often: once for each host.
    May change: `passes`, by `add`, each with its phase (`PRE_PLACEMENT`, `POST_PLACEMENT`,
        `POST_REWRITE_FOR_EXEC`, `HOT_PLACEMENT`, `POST_PARTITIONING`, `HOT`), order, and
        optionally a condition: `applies` returns for which graphs it has to run.
    Threads: the one that assembles the host.

    Example::

        @graphmill.hookimpl
        def graphmill_register_passes(passes):
            passes.add("drop_asserts", "downstream.passes:drop_asserts", phase="PRE_PLACEMENT")
    """


@hookspec
def graphmill_register_transports(transports: Registrar[Transport]) -> None:
    """Register transports of values between devices, by names that `graphmill.transport` selects.

    When: after all plugins have registered passes.
    How often: once for each host.
    May change: `transports`, by `add`.
    Threads: the one that assembles the host. Creating the first session that selects a transport
        imports and instantiates it; each step on several devices asks it for a rendezvous.

    Example::

        @graphmill.hookimpl
        def graphmill_register_transports(transports):
            transports.add("rdma", "downstream.transport:RdmaTransport")
    """


@hookspec
def graphmill_register_variants(variants: Registrar[VariantCodec]) -> None:
    """Register codecs of variant types, so that their values can be sent to other tasks and saved.

    When: after all plugins have registered transports.
    How often: once for each host.
    May change: `variants`, by `add`. The name is the type name that the values have in messages;
        those of TensorFlow's types are its own, such as `tensorflow::TensorList`.
    Threads: the one that assembles the host. All codecs are imported when a variant is first
        encoded, and a codec when a value of its type is first decoded; any thread calls them.

    Example::

        @graphmill.hookimpl
        def graphmill_register_variants(variants):
            variants.add("Downstream>Pair", "downstream.pair:PAIR_CODEC")
    """


@hookspec
def graphmill_register_session_factories(session_factories: Registrar[SessionFactory]) -> None:
    """Register session factories for targets such as `grpc://HOST:PORT`, by URL scheme.

    When: after all plugins have registered variants.
    How often: once for each host.
    May change: `session_factories`, by `add`. Sessions with the empty target run in this process.
    Threads: the one that assembles the host. Creating the first session for such a target imports
        and instantiates the factory.

    Example::

        @graphmill.hookimpl
        def graphmill_register_session_factories(session_factories):
            session_factories.add("quic", "downstream.session:QuicSessionFactory")
    """


@hookspec
def graphmill_register_servers(servers: Registrar[ServerFactory]) -> None:
    """Register server factories of clusters, by the name of their protocol.

    When: after all plugins have registered session factories.
    How often: once for each host.
    May change: `servers`, by `add`.
    Threads: the one that assembles the host. Creating the first server imports and instantiates the
        factory.

    Example::

        @graphmill.hookimpl
        def graphmill_register_servers(servers):
            servers.add("quic", "downstream.server:QuicServerFactory")
    """


@hookspec
def graphmill_register_commands(commands: Registrar[object]) -> None:
    """Register subcommands of the `graphmill` command line: click commands.

    When: after all plugins have registered servers.
    How often: once for each host.
    May change: `commands`, by `add`.
    Threads: the one that assembles the host. A command is imported when it is called.

    Example::

        @graphmill.hookimpl
        def graphmill_register_commands(commands):
            commands.add("model-size", "downstream.cli:model_size")
    """


@hookspec
def graphmill_register_exporters(exporters: Registrar[object]) -> None:
    """Register exporters, which convert a graph to the form of another system.

    When: after all plugins have registered commands.
    How often: once for each host.
    May change: `exporters`, by `add`. The name is the target of `graphmill.export.convert`; the
        object is a function of an `ExportGraph` and keyword options.
    Threads: the one that assembles the host. An exporter is imported when it is called.

    Example::

        @graphmill.hookimpl
        def graphmill_register_exporters(exporters):
            exporters.add("openvino", "downstream.openvino:to_openvino")
    """


@hookspec
def graphmill_register_conversions(target: str, conversions: Registrar[object]) -> None:
    """Register conversions of ops to the form of another system, for an exporter.

    When: before the first export to a target that converts one op at a time, such as `onnx`.
    How often: once for each host and target.
    May change: `conversions`, by `add`. The name is that of the op. For `onnx` the object is a
        function of a `graphmill_plugins.jit.export.onnx.conversion.NodeConversion`, which returns
        the names of the node's outputs.
    Threads: the one that exports. A conversion is imported when a node needs it.

    Example::

        @graphmill.hookimpl
        def graphmill_register_conversions(target, conversions):
            if target == "onnx":
                conversions.add("Downstream>Twice", "downstream.onnx:convert_twice")
    """


# Life cycle: notifications for plugins.


@hookspec
def graphmill_configure(host: Host) -> None:
    """Inspect the assembled host.

    When: after all registration hooks, when conflicts between plugins are resolved.
    How often: once for each host.
    May change: the plugin's own state. The host is complete: read its registries here, but register
        in the hooks above.
    Threads: the one that assembles the host.

    Example::

        @graphmill.hookimpl
        def graphmill_configure(host):
            if "NPU" not in host.devices:
                logging.getLogger(__name__).info("no NPU plugin: falling back to the CPU")
    """


@hookspec
def graphmill_step_started(step: StepInfo) -> None:
    """Observe that a session begins a step.

    When: in `Session.run`, `run` of a callable and the like, before anything is computed.
    How often: once per step, never per node. Without an implementation there is no overhead.
    May change: nothing in the step. If the hook raises, graphmill logs the exception and disables
        the observer permanently; the step continues.
    Threads: the thread that runs the step. Steps may overlap, so calls may, too.

    Example::

        @graphmill.hookimpl
        def graphmill_step_started(step):
            print("step", step.step_id, "of", step.session, "fetches", *step.fetches)
    """


@hookspec
def graphmill_step_finished(
    step: StepInfo, seconds: float, error: OpError | None, run_metadata: RunMetadata | None
) -> None:
    """Observe that a session has finished a step, successfully or with `error`.

    When: after all executors of the step are done, before its caller continues.
    How often: once for each `graphmill_step_started`.
    May change: nothing in the step; `run_metadata` is None unless the caller requested it. If the
        hook raises, graphmill logs the exception and disables the observer permanently.
    Threads: the thread that runs the step. Steps may overlap, so calls may, too.

    Example::

        @graphmill.hookimpl
        def graphmill_step_finished(step, seconds, error):
            print("step", step.step_id, "took", seconds, "s", "and failed" if error else "")
    """
