"""Choose how the compiler computes each node: the kernel or lowering that it traces.

`KernelRegistry.find` chooses the kernel for the node's device. The compiler may trace that kernel,
a kernel of the same supplier for the compiler's backend, or a lowering of that supplier. Other code
might compute other values, so a node whose kernel has none of these is not in a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.spi import CallKind, Source
from graphmill.spi.compilers import COPY_TO_DEVICE, COPY_TO_HOST
from graphmill.spi.graphs import AttrsCache, calls_of, parse_device_name, requested_executor
from graphmill.spi.passes import effects_of, overrides_op
from graphmill_plugins.jit.ir.function_bodies import plain_bodies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.spi import Check, Device, FuncAttr, Graph, Host, Lowering, Node
    from graphmill.spi.compilers import KernelChoice
    from graphmill_plugins.jit.ir.function_bodies import BodyProvider
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies

BACKEND: Final = "jax"
_HOST_TYPE, _HOST_BACKENDS = "CPU", ("numpy",)  # used if the device is unknown
_FOLLOWED: Final = frozenset(
    {CallKind.ONCE, CallKind.BRANCH, CallKind.LOOP_CONDITION, CallKind.LOOP_BODY}
)
_VARIABLES, _DRAWS = frozenset({"state"}), frozenset({"state", "rng"})


def device_of(graph: Graph, devices: Iterable[Device]) -> Device | None:
    """Return the device of a partition's nodes; None if none is assigned."""
    names = {node.assigned_device for node in graph.nodes if node.assigned_device}
    return next((device for device in devices if device.name in names), None)


def followed_functions(node: Node) -> list[FuncAttr]:
    """Return the functions that a node calls and that the compiler can trace."""
    calls = calls_of(node)
    return [called.function for called in calls if called.kind in _FOLLOWED] if calls else []


class LoweringChoice(NamedTuple):
    """How the compiler computes one node.

    Attributes:
        kernel: the kernel that is called with traced values; None if the lowering replaces it.
        lowering: the lowering declared for it, if any.
        checks: conditions under which the result is that of the interpreted kernel.
        is_call: whether the node only calls functions, according to its op's traits.
        takes_pytrees: whether its variants are pytrees, as its kernel declares.
    """

    kernel: KernelChoice | None = None
    lowering: Lowering | None = None
    checks: tuple[Check, ...] = ()
    is_call: bool = False
    takes_pytrees: bool = False

    @property
    def has_function(self) -> bool:
        """Whether a lowering computes the node instead of a kernel."""
        return self.lowering is not None and self.lowering.function is not None

    @property
    def is_of_node(self) -> bool:
        """Whether the kernel is made for one node, whose name may decide what it computes."""
        definition = None if self.kernel is None else self.kernel.definition
        return definition is not None and not (definition.stateful or definition.is_shareable)

    @property
    def takes_handles(self) -> bool:
        """Whether inputs and outputs may be variables, tensor arrays, lists and the like."""
        traces = self.kernel is not None and self.kernel.definition.traces_variables
        return self.has_function or self.is_call or traces


class _Found(NamedTuple):
    """The lowering choice of nodes with certain attrs, and checks that may refuse such a node."""

    lowering: Lowering | None
    choice: LoweringChoice | str


class LoweringChoices:
    """The lowering choices of the nodes of one device.

    Args:
        host: provides the kernels and lowerings.
        device: where the nodes run; by default the host's processor.
        bodies: see the attribute; by default those of the library.

    Attributes:
        bodies: returns the bodies of the functions that nodes call.
    """

    def __init__(
        self, host: Host, device: Device | None = None, bodies: BodyProvider | None = None
    ) -> None:
        self._host = host
        self.bodies = bodies or plain_bodies(host.ops)
        self._name = "" if device is None else device.name
        self._type = _HOST_TYPE if device is None else device.device_type
        self._backends = _HOST_BACKENDS if device is None else tuple(device.backends)
        self._found: AttrsCache[_Found] = AttrsCache()
        self._kernels: AttrsCache[tuple[KernelChoice | None]] = AttrsCache()

    def kernel_choice(self, node: Node) -> KernelChoice | None:
        """Return the kernel that the registry chooses for a node."""
        found = self._kernels.find(node)
        if found is None:
            kernels = self._host.kernels
            choice = kernels.try_find(node.op_def, node.attrs, self._type, self._backends)
            found = self._kernels.store(node, (choice,))
        return found[0]

    def why_elsewhere(self, node: Node) -> str:
        """Return why a node of a called function cannot run on this device; empty if it can.

        A node of another device of the same type can: one factory creates both devices.
        """
        name = node.assigned_device
        if not name or name == self._name or parse_device_name(name).type == self._type:
            return ""
        return f"it runs on another device, {name}"

    def kernel_on(self, node: Node, backend: str) -> KernelChoice | None:
        """Return the chosen kernel's equivalent for a backend; None if it has none."""
        choice = self.kernel_choice(node)
        return choice and self._host.kernels.find_form(
            choice, node.op_def, node.attrs, self._type, backend
        )

    def why_role_may_not_hold(self, node: Node) -> str:
        """Return why a node may not behave as its role says; empty if it does.

        The compiler implements the roles of control flow, constants, variables and nodes that
        forward their inputs, as the supplier of the op declares them. A kernel of another supplier
        may behave differently, unless it promises to forward its inputs.
        """
        choice = self.kernel_choice(node)
        if choice is None or (node.op_def.traits.forwards and choice.definition.forwards):
            return ""
        return self._why_overridden(node, choice)

    def takes_pytrees(self, node: Node) -> bool:
        """Return whether the variants that a node reads and returns are pytrees."""
        choice = None if node.op in node.graph.library else self.kernel_choice(node)
        return choice is not None and bool(choice.definition.pytrees)

    def is_standalone(self, node: Node) -> bool:
        """Return whether a node may form a cluster alone, as its lowering declares."""
        choice = self.of(node)
        lowering = None if isinstance(choice, str) else choice.lowering
        if lowering is None:
            return False
        declared = lowering.standalone
        return declared(node) if callable(declared) else declared

    def needs_distinct_rows(self, node: Node) -> bool:
        """Return whether a node can be compiled only if its row indices are unique."""
        if not _takes_rows(node):
            return False
        kernel = self.kernel_on(node, BACKEND)
        return kernel is not None and kernel.definition.distinct_rows

    def takes_distinct_rows(self, node: Node) -> bool:
        """Return whether a node ignores the out-of-range indices that replace duplicates."""
        if not _takes_rows(node):
            return False
        choice = self.of(node, refuses=False)
        if isinstance(choice, str):
            return False
        if choice.has_function:
            return choice.lowering is not None and choice.lowering.distinct_rows
        return choice.kernel is not None and choice.kernel.definition.distinct_rows

    def of(self, node: Node, *, refuses: bool = True) -> LoweringChoice | str:
        """Return the lowering choice of a node, or why it cannot be compiled.

        Args:
            node: the node.
            refuses: whether to call its lowering's `refuse`, which is done once, before tracing.
        """
        if node.op in node.graph.library:
            return LoweringChoice(is_call=True)
        found = self._found.find(node) or self._found.store(node, self._find(node))
        if refuses and found.lowering is not None and found.lowering.refuse:
            reason = found.lowering.refuse(node)
            if reason:
                return reason
        return found.choice

    def depends_on_attrs_only(self, node: Node) -> bool:
        """Return whether nodes with the same op and attrs have the result of `of` for this one."""
        if node.op in node.graph.library:
            return False
        found = self._found.find(node) or self._found.store(node, self._find(node))
        return found.lowering is None or not found.lowering.refuse

    def _find(self, node: Node) -> _Found:
        choice = self.kernel_choice(node)
        owner = self._host.ops.provenance(node.op) if choice is None else choice.owner
        declared = None if choice is None else choice.definition.lowering
        lowering = self._host.lowerings.find(node.op, owner, declared)
        return _Found(lowering, self._lowering_choice(node, choice, lowering))

    def _lowering_choice(
        self, node: Node, choice: KernelChoice | None, lowering: Lowering | None
    ) -> LoweringChoice | str:
        has_function = lowering is not None and lowering.function is not None
        if node.op_def.calls and not has_function:
            return self._call(node, choice)
        if choice is None:
            if lowering is None or lowering.function is None:
                return "it has no kernel"
            return LoweringChoice(None, lowering, lowering.checks)
        kernels = self._host.kernels
        kernel = kernels.find_form(choice, node.op_def, node.attrs, self._type, BACKEND)
        reason = _why_not(node, choice, kernel, has_function=has_function)
        if reason:
            return reason
        checks = dict.fromkeys(choice.definition.checks)
        checks |= dict.fromkeys(kernel.definition.checks if kernel is not None else ())
        checks |= dict.fromkeys(lowering.checks if lowering is not None else ())
        pytrees = bool(choice.definition.pytrees)
        return LoweringChoice(kernel, lowering, tuple(checks), takes_pytrees=pytrees)

    def _call(self, node: Node, choice: KernelChoice | None) -> LoweringChoice | str:
        """Return the choice for a node that only calls functions, as its op declares."""
        executor = requested_executor(node)
        if executor:
            return f"it requests the executor {executor!r}"
        calls = node.op_def.calls
        if not all(call.kind in _FOLLOWED for call in calls) or any(c.counted for c in calls):
            return "only its kernel determines when its functions are called"
        reason = "" if choice is None else self._why_overridden(node, choice)
        return reason or LoweringChoice(is_call=True)

    def _why_overridden(self, node: Node, choice: KernelChoice) -> str:
        """Return why a kernel whose supplier is not the op's cannot be replaced."""
        return _no_lowering(choice) if overrides_op(choice, node.op, self._host.ops) else ""


def _why_not(
    node: Node, choice: KernelChoice, kernel: KernelChoice | None, *, has_function: bool
) -> str:
    """Return why a chosen kernel cannot be compiled as `kernel`; empty if it can."""
    chosen = choice.definition
    effects = effects_of(node.op_def) | chosen.effects
    if chosen.may_wait:
        return "its kernel may wait for another node"
    if has_function:
        return _forbidden(effects - _VARIABLES)
    if kernel is None:
        return _no_lowering(choice)
    definition = kernel.definition
    effects |= definition.effects
    if definition.keeps_variable:
        if not chosen.variable:
            return "its kernel does not hold a variable"
        return _forbidden(effects - _DRAWS)
    if definition.traces_variables:
        return _forbidden(effects - _VARIABLES)
    if not definition.is_traceable:
        return "its kernel needs concrete values or a context"
    return _forbidden(effects)


def _takes_rows(node: Node) -> bool:
    return any(use.rows for use in node.op_def.traits.resources or ())


def _forbidden(effects: frozenset[str]) -> str:
    return f"it has effects: {', '.join(sorted(effects))}" if effects else ""


def _no_lowering(choice: KernelChoice) -> str:
    of = f" of {choice.owner}" if choice.owner is not None else ""
    return f"its kernel {choice.definition.source}{of} has no lowering"


class CompiledForms(Mapping[str, str]):
    """The form of each node of a cluster and of the functions that it calls, by its name.

    They are found at the first look-up, because most clusters are never explained.

    Args:
        bodies: the cluster; released after the first look-up.
    """

    def __init__(self, bodies: ScheduledBodies) -> None:
        self._bodies: ScheduledBodies | None = bodies
        self._forms: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, str]:
        bodies = self._bodies
        if bodies is not None:  # two threads may find the same
            self._forms = _forms_in(bodies)
            self._bodies = None
        return self._forms


def _forms_in(bodies: ScheduledBodies) -> dict[str, str]:
    forms: dict[str, str] = {}
    pending, seen = [bodies.main], set()
    while pending:
        scheduled = pending.pop()
        if id(scheduled) in seen:
            continue
        seen.add(id(scheduled))
        for node in scheduled.nodes:
            if node.op_def not in (COPY_TO_DEVICE, COPY_TO_HOST):
                forms.setdefault(node.name, _form_of(node, bodies.choices))
            pending += map(bodies.function, followed_functions(node))
    return forms


def _form_of(node: Node, choices: LoweringChoices) -> str:
    source = node.op_def.traits.source
    if source in (Source.CONSTANT, Source.VARIABLE):
        return "constant" if source is Source.CONSTANT else "variable"
    choice = choices.of(node, refuses=False)
    if isinstance(choice, str):
        return f"none: {choice}"
    if choice.has_function and choice.lowering is not None:
        return f"lowering {choice.lowering.source}"
    if choice.is_call:
        names = dict.fromkeys(function.name for function in followed_functions(node))
        return f"body of {', '.join(names)}"
    return "" if choice.kernel is None else f"kernel {choice.kernel.definition.source}"
