"""`StraightLineKernel`: run generated code that is never compiled.

It is a loop that cannot be compiled, or nodes that only store values in variables.

Its kernels may block, for example on a queue. The step continues meanwhile, and no thread is
blocked.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError
from graphmill.spi import ClusterRecord, SignatureRecord, kernel
from graphmill.spi.process import INFO, log_event
from graphmill_plugins.jit.ir.body_kernels import BodyKernels
from graphmill_plugins.jit.ir.function_bodies import bodies_of
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.straight.straight_line import StraightLine

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from graphmill.spi import ExecutorArgs, OpKernelConstruction, OpKernelContext
    from graphmill_plugins.jit.ir.cluster_attr import ClusterAttr

    Done = Callable[..., None]


@kernel("_StraightLine", stateful=True, async_=True)
class StraightLineKernel:
    """Run a cluster as generated code."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attr: ClusterAttr = construction.attrs["f"]
        functions, device = construction.functions, construction.device
        if attr.body is None or device is None:
            raise TypeError("a cluster needs its body and a device")
        host, called = functions.host, bodies_of(functions)
        bodies = ScheduledBodies(attr.body, host, functions.effects, attr.functions, called=called)
        kernels = BodyKernels(device, functions, attr.owner, attr.shapes)
        self._code = StraightLine(bodies, kernels.create, device.name)
        signature = SignatureRecord("all", reason=attr.reason)
        self._counts = signature.counts
        record = attr.record or ClusterRecord(construction.node_name, ())
        record.source = self._code.source
        record.signatures.append(signature)
        log_event("jit", INFO, "not compiled", cluster=record.name, reason=attr.reason)

    def __call__(self, ctx: OpKernelContext, inputs: list[Any], done: Done) -> None:
        """Compute the outputs and pass them to `done`, at once if no kernel blocks.

        Raises:
            OpError: a node failed; the error names it.
        """
        code = self._code
        self._counts.num_straight += 1
        if code.waits:
            _Run(code, ctx.args, inputs, done).resume(None, None)
            return
        try:
            results = code.call(ctx.args, *inputs)
        except Exception as error:
            status = code.error_of(error)
            if status is error:
                raise
            raise status from error
        done(list(results))


class _Run:
    """A run of code that may block.

    Threads: everything happens in the thread that drives the step. A kernel may be done in another
    one, which only posts.
    """

    __slots__ = ("_args", "_call", "_code", "_done", "_generator", "_outcome")

    def __init__(
        self, code: StraightLine, args: ExecutorArgs, inputs: list[Any], done: Done
    ) -> None:
        self._code = code
        self._args = args
        self._done = done
        self._generator: Generator[Any, Any, tuple[Any, ...]] = code.call(args, *inputs)
        self._call: object = None  # the asynchronous call that is being made
        self._outcome: tuple[Any, BaseException | None] | None = None

    def resume(self, value: Any, error: BaseException | None) -> None:
        """Continue with an asynchronous kernel's result, until one blocks or the code ends."""
        generator = self._generator
        while True:
            try:
                if error is None:
                    compute, inputs = generator.send(value)
                else:
                    compute, inputs = generator.throw(error)
            except StopIteration as end:
                self._done(list(end.value))
                return
            except Exception as raised:  # noqa: BLE001 - becomes typed, with its node
                status = self._code.error_of(raised)
                if status is not raised:
                    status.__cause__ = raised
                self._done(None, status)
                return
            outcome = self._start(compute, inputs)
            if outcome is None:
                return
            value, error = outcome

    def _start(
        self, compute: Callable[..., Any], inputs: tuple[Any, ...]
    ) -> tuple[Any, BaseException | None] | None:
        """Call a kernel; return its outcome if it finished at once."""
        runner = self._args.runner
        token = object()
        is_done = False

        def done(outputs: Any = None, error: BaseException | None = None) -> None:
            nonlocal is_done
            if is_done:
                raise InternalError("a kernel called done twice")
            is_done = True
            if self._call is token and runner.owner == get_ident():
                self._outcome = outputs, error
            else:
                runner.post(lambda: self.resume(outputs, error))

        self._call = token
        try:
            compute(*inputs, done=done)
        except Exception as error:  # noqa: BLE001 - raised at the node's line in the code
            return None, error
        finally:
            self._call = None
        outcome, self._outcome = self._outcome, None
        return outcome
