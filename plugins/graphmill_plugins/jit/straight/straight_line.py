"""Straight-line code: generate Python for a cluster, which calls the interpreter's kernels.

Each node is one line; each tensor is a local variable, which is deleted after its last use and then
takes another tensor; functions are Python functions, loops are `while`. The code avoids the
executor's work for each node (counts, queues, input entries). It calls the same kernels, so its
results are the same. A function with an asynchronous kernel is a generator that yields the call;
see `StraightLineKernel`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from graphmill.errors import CancelledError, FailedPreconditionError
from graphmill.spi import CallKind, OpKernelContext, Source, as_status, at_node, refs_to_read
from graphmill.spi.executors import add_iteration, is_validation_on
from graphmill.spi.graphs import calls_of
from graphmill.spi.kernels import not_a_scalar
from graphmill_plugins.jit.ir.cluster_op import CLUSTER
from graphmill_plugins.jit.ir.handles import was_switch
from graphmill_plugins.jit.ir.invariant_nodes import does_nothing
from graphmill_plugins.jit.straight.output_checks import (
    FIRST_CALLS,
    FIRST_CALLS_OF_LARGE,
    LARGE,
    OutputChecks,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import CodeType, TracebackType

    from graphmill.errors import OpError
    from graphmill.spi import FuncAttr, Node, OpKernel
    from graphmill.spi.graphs import CalledFunction
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, ScheduledBody

    Calls = Sequence[CalledFunction]

FIRST_REPLACEMENT: Final = 8  # iterations after which the code of a loop calls its replacement
_FILE: Final = "<graphmill cluster>"
_CODES: Final[WeakValueDictionary[bytes, CodeType]] = WeakValueDictionary()
"""The code in use, by the digest of its text without comments; compiling it takes long."""


class StraightLine:
    """The generated code of a cluster.

    Args:
        bodies: the cluster and its functions.
        create_kernel: creates the kernel of a node of a body.
        device: name of the device, for errors.
        to_device: copies a constant to a device with a memory of its own; None for host memory.
        replacement_of: returns a function that may run iterations of a loop in another way; None
            if there is none. The loop's code calls it after `FIRST_REPLACEMENT` iterations with the
            step's arguments, the loop-carried values, the number of iterations so far and None. It
            returns the values, the number of iterations so far, the number at which to call it
            again, and a state that replaces the None then.

    Attributes:
        source: the code, for `explain`, as it is after the first calls.
        call: takes the step's `ExecutorArgs` and the inputs; returns a tuple of outputs. If
            `waits`, it returns a generator that yields (call of an asynchronous kernel, its
            inputs), is sent the kernel's outputs, and returns the tuple.
        waits: whether it has asynchronous kernels.
        kernels: the kernels by node, for nodes that need one.
    """

    def __init__(
        self,
        bodies: ScheduledBodies,
        create_kernel: Callable[[Node, ScheduledBody], OpKernel],
        device: str,
        to_device: Callable[[Any], Any] | None = None,
        replacement_of: Callable[[Node], Callable[..., Any]] | None = None,
    ) -> None:
        self._replacement_of = replacement_of
        self._to_device = to_device
        self._bodies = bodies
        self._create_kernel = create_kernel
        self._device = device
        self._names: dict[str, Any] = {
            "_read": _read,
            "_holds": _holds,
            "_holds_scalar": _holds_scalar,
            "_branch": _branch,
            "_raise_cancelled": _raise_cancelled,
            "_context": OpKernelContext,
            "_at_once": _at_once,
        }
        self._checks = OutputChecks(self._names)
        self._validates = is_validation_on()
        self._waiting: set[str] = set()  # the functions that are generators
        self._lines: list[str] = []
        self._nodes: dict[int, Node] = {}
        self.kernels: dict[Node, OpKernel] = {}
        self._calls: dict[object, str] = {}  # names of kernel calls, which equal nodes may share
        self._functions: dict[int, str] = {}
        self._constants: list[Node] = []
        self._frames: dict[str, str] = {}  # v1 frames by the variables that count their iterations
        self._add_function("cluster", bodies.main)
        checked = "\n".join(self._lines) + "\n"
        is_large = len(self._lines) >= LARGE and not self._frames
        drops = not self._validates and self._checks.pays_to_drop(len(self._lines), is_large)
        self.source = self._checks.without_first(checked) if drops else checked
        self._checked_calls = FIRST_CALLS_OF_LARGE if is_large else FIRST_CALLS
        self._checked: Callable[..., Any] = self._compiled(checked)
        self.call: Callable[..., Any] = self._first_calls if drops else self._checked
        self.waits = "cluster" in self._waiting

    def _compiled(self, source: str) -> Callable[..., Any]:
        self._code = _code_of(source)  # as long as it is held, equal clusters find it
        exec(self._code, self._names)  # generated by this class only
        function: Callable[..., Any] = self._names["cluster"]
        return function

    def _first_calls(self, *inputs: Any) -> Any:
        """Run the code with all output checks; after some calls, the final code replaces it."""
        self._checked_calls -= 1
        try:
            return self._checked(*inputs)
        finally:
            if self._checked_calls <= 0:  # another thread may have counted meanwhile
                self._checks.end_first()
                self.call = self._compiled(self.source)

    def fail(self, error: OpError) -> None:
        """Make each later call raise an error that was detected in the cluster."""

        def failing(*_: Any) -> Any:
            raise type(error)(error.message, node=error.node, op_type=error.op_type)

        self.call = failing

    def error_of(self, error: Exception) -> OpError:
        """Return the exception of a call as an error of the node that caused it."""
        line = _deepest_line(error.__traceback__)
        node = self._nodes.get(line) if line is not None else None
        kernel = self.kernels.get(node) if node is not None else None
        if node is not None and kernel is not None:
            error = self._checks.wrong_output(error, node, kernel) or error
        status = as_status(error, kernel)
        if node is not None:
            iteration = self._iteration_of(error)
            if node.op == CLUSTER.name and status.node is not None:
                add_iteration(status, iteration)  # it already names its node
            at_node(status, node, kernel, self._device, iteration)
        return status

    def _iteration_of(self, error: Exception) -> str:
        """Return frame and iteration of a former v1 loop, as the executor names them."""
        frames, counts = self._frames, []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                counts += [(n, v) for n, v in trace.tb_frame.f_locals.items() if n in frames]
            trace = trace.tb_next
        return "/".join(f"{frames[name]}:{count}" for name, count in counts if frames[name])

    def _add_function(self, name: str, scheduled: ScheduledBody) -> None:
        """Generate a function after the functions that it calls."""
        writer = _Writer(scheduled)
        for node in scheduled.nodes:
            self._node(node, writer)
        args = "".join(f", {writer.argument(index)}" for index in range(len(scheduled.args)))
        results = "".join(f"{self._result(*result, writer)}, " for result in scheduled.results)
        self._lines.append(f"def {name}(args{args}):")
        for text, owner in writer.lines:
            self._lines.append(f"    {text}  # {_printable(owner)}")
            self._nodes[len(self._lines)] = owner
        self._lines.append(f"    return ({results})")
        if any("yield " in text for text, _ in writer.lines):
            self._waiting.add(name)

    @staticmethod
    def _result(node: Node, output: int, writer: _Writer) -> str:
        """Return the name of a result; a reference becomes its value."""
        name = writer.name(node, output)
        if not node.output_types[output].is_ref:
            return name
        value = writer.fresh()
        writer.add(f"{value} = _read({name})", node)
        return value

    def _node(self, node: Node, writer: _Writer) -> None:
        if does_nothing(node):
            return
        if node.op_def.traits.source is Source.CONSTANT:
            name = f"c{len(self._constants)}"
            self._constants.append(node)
            self._names[writer.constant(node, name)] = self._constant(node)
            return
        reads = set(refs_to_read(node))
        inputs = [
            f"_read({writer.name(edge.src, edge.src_output)})"
            if position in reads
            else writer.name(edge.src, edge.src_output)
            for position, edge in enumerate(node.in_edges)
        ]
        targets = writer.targets(node)
        calls = calls_of(node)
        if calls and all(called.kind in _WRITERS for called in calls):
            _WRITERS[calls[0].kind](self, node, calls, inputs, targets, writer)
        else:
            self._write_kernel(node, inputs, targets, writer)
        writer.drop(node)

    def _constant(self, node: Node) -> Any:
        value = node.attrs["value"].numpy()
        if value.dtype.hasobject:
            return value
        if self._to_device is not None:
            return self._to_device(value)
        # Arithmetic on NumPy scalars is several times faster than on arrays of rank 0.
        return value if value.ndim else value[()]

    def _write_kernel(self, node: Node, inputs: list[str], targets: str, writer: _Writer) -> None:
        kernel = self._create_kernel(node, writer.scheduled)
        self.kernels[node] = kernel
        definition = kernel.definition
        if definition.forwards and node.num_outputs == len(node.in_edges) == 1:
            writer.add(f"{targets}{inputs[0]}", node)
            return
        function = self._function_of(node, kernel)
        if definition.stateful:
            name = f"n{len(self.kernels)}"
            self._names[name] = kernel
            inputs = [f"_context(args, {name})", *inputs]
        if definition.async_:
            arguments = "".join(f"{name}, " for name in inputs)
            call = f"yield {function}, ({arguments})"
        else:
            call = f"{function}({', '.join(inputs)})"
        is_first = self._validates or function not in writer.called
        writer.called.add(function)
        checked = self._checks.checked(targets, function, call, node, kernel, is_first=is_first)
        writer.add(checked, node)

    def _function_of(self, node: Node, kernel: OpKernel) -> str:
        """Return the name of a kernel's call, which nodes of equal types share."""
        number = len(self._calls)
        key: object = number
        if not (kernel.definition.stateful or kernel.definition.async_):
            key = id(kernel.compute), node.input_types, node.output_types
        name = self._calls.setdefault(key, f"k{number}")
        if len(self._calls) > number:
            self._names[name] = kernel.compute
        return name

    def _write_call(
        self, function: str, inputs: list[str], targets: str, writer: _Writer, node: Node
    ) -> None:
        arguments = "".join(f", {name}" for name in inputs)
        writer.add(f"{_unpacked(targets, node)}{self._call(function, arguments)}", node)

    def _call(self, function: str, arguments: str) -> str:
        """Return code that calls a function, which may be a generator."""
        text = f"{function}(args{arguments})"
        return f"(yield from {text})" if function in self._waiting else text

    def _call_one_of(self, functions: Sequence[str], choice: str, arguments: str) -> str:
        """Return code that calls the function chosen by `choice`, a format of `functions`."""
        if self._waiting.isdisjoint(functions):
            return f"({choice.format(*functions)})(args{arguments})"
        generators = [name if name in self._waiting else f"_at_once({name})" for name in functions]
        return f"(yield from ({choice.format(*generators)})(args{arguments}))"

    def write_once(
        self, node: Node, calls: Calls, inputs: list[str], targets: str, writer: _Writer
    ) -> None:
        """Generate a call."""
        arguments = inputs[calls[0].call.first_input :]
        self._write_call(self._function(calls[0].function), arguments, targets, writer, node)

    def write_loop(
        self, node: Node, calls: Calls, inputs: list[str], targets: str, writer: _Writer
    ) -> None:
        """Generate a loop."""
        of_kind = {called.kind: called.function for called in calls}
        test = self._function(of_kind[CallKind.LOOP_CONDITION])
        body = self._function(of_kind[CallKind.LOOP_BODY])
        inputs = inputs[calls[0].call.first_input :]
        carried, number = writer.fresh(), len(self._frames)
        count = f"t{number}"
        self._frames[count] = _frame_of(node, of_kind[CallKind.LOOP_BODY])
        writer.add(f"{carried} = ({''.join(f'{name}, ' for name in inputs)}); {count} = 0", node)
        is_replaced = self._replacement_of is not None and not calls[0].call.first_input
        if is_replaced:
            writer.add(f"p{number} = {FIRST_REPLACEMENT}; s{number} = None", node)
        arguments = f", *{carried}"
        writer.add(f"while _holds({self._call(test, arguments)}[0]):", node)
        writer.add(f"    {carried} = {self._call(body, arguments)}; {count} += 1", node)
        if is_replaced:
            self._write_replacement(node, carried, number, writer)
        writer.add("    if args.is_cancelled: _raise_cancelled(args)", node)
        self._names[f"_loop{number}"] = of_kind[CallKind.LOOP_BODY].name
        note = f"note_iterations(_loop{number}, {count})"
        writer.add(f"if args.stats_collector is not None: args.stats_collector.{note}", node)
        writer.add(f"{_unpacked(targets, node)}{carried}; del {carried}, {count}", node)

    def _write_replacement(self, node: Node, carried: str, number: int, writer: _Writer) -> None:
        """Generate the call that may run iterations of a loop in another way."""
        assert self._replacement_of is not None
        self._names[f"l{number}"] = self._replacement_of(node)
        state = f"{carried}, t{number}, p{number}, s{number}"
        call = f"l{number}(args, {carried}, t{number}, s{number})"
        writer.add(f"    if t{number} == p{number}: {state} = {call}", node)

    def write_branches(
        self, node: Node, calls: Calls, inputs: list[str], targets: str, writer: _Writer
    ) -> None:
        """Generate a branch: by a predicate for two functions, by an index for a list."""
        branches = [self._function(called.function) for called in calls]
        if len({called.call.attr for called in calls}) == 1:
            self._write_case(node, branches, inputs, targets, writer)
            return
        then, other = branches
        arguments = "".join(f", {name}" for name in inputs[1:])
        holds = "_holds_scalar" if was_switch(node) else "_holds"
        call = self._call_one_of(
            (then, other), f"{{}} if {holds}({inputs[0]}) else {{}}", arguments
        )
        writer.add(f"{_unpacked(targets, node)}{call}", node)

    def _write_case(
        self, node: Node, branches: list[str], inputs: list[str], targets: str, writer: _Writer
    ) -> None:
        arguments = "".join(f", {name}" for name in inputs[1:])
        choice = f"_branch(({'{}, ' * len(branches)}), {inputs[0]})"
        call = self._call_one_of(branches, choice, arguments)
        writer.add(f"{_unpacked(targets, node)}{call}", node)

    def _function(self, attr: FuncAttr) -> str:
        scheduled = self._bodies.function(attr)
        name = self._functions.get(id(scheduled))
        if name is None:
            name = f"f{len(self._functions)}"
            self._functions[id(scheduled)] = name
            self._add_function(name, scheduled)
        return name


_WRITERS: Final[dict[CallKind, Any]] = {
    CallKind.ONCE: StraightLine.write_once,
    CallKind.LOOP_CONDITION: StraightLine.write_loop,
    CallKind.LOOP_BODY: StraightLine.write_loop,
    CallKind.BRANCH: StraightLine.write_branches,
}


class _Writer:
    """Names the tensors of one body and finds the last use of each.

    A tensor gets a name that is no longer in use, if there is one: the code has few local
    variables. Python would otherwise allocate memory for the frame of each function that code with
    thousands of them calls.
    """

    def __init__(self, scheduled: ScheduledBody) -> None:
        self.scheduled = scheduled
        self.lines: list[tuple[str, Node]] = []
        self.called: set[str] = set()  # the names of the kernels' calls
        self._names: dict[tuple[Node, int], str] = {
            (node, 0): self.argument(index)
            for index, node in enumerate(scheduled.args)
            if node is not None
        }
        self._unused: list[str] = []
        self._num_names = 0
        self._num_fresh = 0
        self._kept = {*scheduled.results, *self._names}  # tensors that are not deleted
        self._last_readers = _last_readers(scheduled.nodes)
        self._readers = {
            (edge.src, edge.src_output) for node in scheduled.nodes for edge in node.in_edges
        }

    def add(self, text: str, node: Node) -> None:
        """Add a line."""
        self.lines.append((text, node))

    def argument(self, index: int) -> str:
        """Return the name of an argument."""
        return f"a{index}"

    def constant(self, node: Node, name: str) -> str:
        """Define a global constant; return its name."""
        self._names[node, 0] = name
        self._kept.add((node, 0))
        return name

    def name(self, node: Node, output: int) -> str:
        """Return the name of a tensor."""
        name = self._names.get((node, output))
        if name is None:
            name = self._names[node, output] = self._new_name()
        return name

    def _new_name(self) -> str:
        if self._unused:
            return self._unused.pop()
        self._num_names += 1
        return f"v{self._num_names - 1}"

    def fresh(self) -> str:
        """Return an unused name."""
        self._num_fresh += 1
        return f"w{self._num_fresh}"

    def targets(self, node: Node) -> str:
        """Return the left side of the assignment of a node's outputs."""
        count = node.num_outputs
        if not count:
            return ""
        return ", ".join(self.name(node, output) for output in range(count)) + " = "

    def drop(self, node: Node) -> None:
        """Delete tensors after a node: those that it reads last, and its unread outputs."""
        dead = [
            self.name(src, output)
            for src, output in self._last_readers.get(node, ())
            if (src, output) not in self._kept
        ]
        dead.extend(
            self.name(node, output)
            for output in range(node.num_outputs)
            if (node, output) not in self._readers and (node, output) not in self._kept
        )
        if dead:
            text, owner = self.lines[-1]
            self.lines[-1] = f"{text}; del {', '.join(dead)}", owner
            self._unused.extend(reversed(dead))


def _code_of(source: str) -> CodeType:
    """Return the code of generated source; that of equal clusters differs only in comments."""
    lines = [line.rpartition("  # ")[0] or line for line in source.splitlines()]
    text = "\n".join(lines) + "\n"
    key = sha256(text.encode()).digest()
    code = _CODES.get(key)
    if code is None:
        code = _CODES[key] = compile(text, _FILE, "exec")
    return code


def _last_readers(nodes: Iterable[Node]) -> dict[Node, list[tuple[Node, int]]]:
    """Return for each node the tensors that it is the last to read."""
    last: dict[tuple[Node, int], Node] = {}
    for node in nodes:
        for edge in node.in_edges:
            last[edge.src, edge.src_output] = node
    readers: dict[Node, list[tuple[Node, int]]] = {}
    for tensor, node in last.items():
        readers.setdefault(node, []).append(tensor)
    return readers


def _printable(node: Node) -> str:
    """Return a description of a node for a comment."""
    name = f"{node.name}: {node.op}"
    return name if name.isprintable() else ascii(name)


def _unpacked(targets: str, node: Node) -> str:
    """Return assignment targets for a tuple, including one of a single element."""
    return targets.replace(" = ", ", = ") if node.num_outputs == 1 else targets


def _read(ref: Any) -> Any:
    """Return the value of a reference."""
    value = ref.value
    if value is None:
        raise FailedPreconditionError(
            f"Attempting to use uninitialized value {ref.name}; "
            "run the variables' initializer or restore a checkpoint first"
        )
    return value


def _holds(pred: Any) -> bool:
    """Return the truth of a condition; a tensor is true if it has elements."""
    if type(pred) is np.bool_:  # the usual case
        return bool(pred)
    return bool(pred) if not np.ndim(pred) else bool(np.size(pred))


def _holds_scalar(pred: Any) -> bool:
    """Return the truth of a `Switch` predicate, which must be a scalar."""
    if np.ndim(pred):
        raise not_a_scalar(pred)
    return bool(pred)


def _branch(branches: tuple[Any, ...], index: Any) -> Any:
    """Return the branch at an index; the last one if it is out of range."""
    position = int(index)
    return branches[position if 0 <= position < len(branches) else -1]


def _raise_cancelled(args: Any) -> None:
    """Raise the error of a step that was cancelled."""
    reason = args.cancel_reason()
    raise CancelledError(
        "the step was cancelled" + (f": {reason.message}" if reason is not None else "")
    )


def _frame_of(node: Node, body: FuncAttr) -> str:
    """Return the v1 frame of a functionalized loop; empty for other loops."""
    was_frame = body.name == f"{node.name}/body"  # the name that functionalization gives
    return node.name.rpartition("/")[0] if was_frame else ""


def _at_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function as a generator that never waits."""

    def run(*args: Any) -> Any:
        return function(*args)
        yield

    return run


def _deepest_line(trace: TracebackType | None) -> int | None:
    """Return the innermost line of generated code in a traceback."""
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
