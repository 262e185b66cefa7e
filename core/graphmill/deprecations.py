"""Old public names that still work for one version, with a `DeprecationWarning`.

`RENAMED_MODULES` lists modules, `RENAMED_NAMES` classes, functions and constants of modules,
`RENAMED_PASSES` graph passes.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from graphmill.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from types import ModuleType

P = ParamSpec("P")
R = TypeVar("R")

RENAMED_MODULES: dict[str, str] = {
    "graphmill.testing.answer_process": "graphmill.testing.runners.subprocess_runner",
    "graphmill.testing.answers": "graphmill.testing.golden",
    "graphmill.testing.boxed_device": "graphmill.testing.fakes.strict_device",
    "graphmill.testing.case_text": "graphmill.testing.case_writer",
    "graphmill.testing.conformance.rows": "graphmill.testing.conformance.clauses",
    "graphmill.testing.control_flow": "graphmill.testing.generators.control_flow_programs",
    "graphmill.testing.coverage": "graphmill.testing.dtype_coverage",
    "graphmill.testing.cpu_types": "graphmill.testing.oracle.cpu_types",
    "graphmill.testing.device_runner": "graphmill.testing.runners.device_runner",
    "graphmill.testing.executor_check": "graphmill.testing.differential.executors",
    "graphmill.testing.executor_probe": "graphmill.testing.fakes.executor_probe",
    "graphmill.testing.faults": "graphmill.testing.fakes.fault_injection",
    "graphmill.testing.folders": "graphmill.testing.case_folder",
    "graphmill.testing.foreign": "graphmill.testing.fakes.third_party_plugin",
    "graphmill.testing.gradient_answers": "graphmill.testing.oracle.gradient_results",
    "graphmill.testing.gradient_judge": "graphmill.testing.differential.gradients",
    "graphmill.testing.graphs": "graphmill.testing.generators.dataflow_graphs",
    "graphmill.testing.hosts": "graphmill.testing.runners.backends",
    "graphmill.testing.inputs": "graphmill.testing.case_inputs",
    "graphmill.testing.jax_runner": "graphmill.testing.runners.jax_runner",
    "graphmill.testing.jit_check": "graphmill.testing.differential.compiled_graphs",
    "graphmill.testing.jit_values": "graphmill.testing.differential.compiled_ops",
    "graphmill.testing.judge": "graphmill.testing.compare",
    "graphmill.testing.levels": "graphmill.testing.coverage_report",
    "graphmill.testing.messages": "graphmill.testing.proto_builders",
    "graphmill.testing.op_graph": "graphmill.testing.case_graph",
    "graphmill.testing.passes": "graphmill.testing.differential.pass_bisection",
    "graphmill.testing.patience": "graphmill.testing.timeouts",
    "graphmill.testing.program": "graphmill.testing.case_nodes",
    "graphmill.testing.reference": "graphmill.testing.oracle.reference_evaluator",
    "graphmill.testing.reference_frames": "graphmill.testing.oracle.reference_frames",
    "graphmill.testing.restless": "graphmill.testing.fakes.chaos_plugin",
    "graphmill.testing.runner": "graphmill.testing.runners.kernel_runner",
    "graphmill.testing.session_runner": "graphmill.testing.runners.session_runner",
    "graphmill.testing.structured_graphs": "graphmill.testing.generators.control_flow_graphs",
    "graphmill.testing.sweep": "graphmill.testing.generators.op_instances",
    "graphmill.testing.sweep_judge": "graphmill.testing.differential.op_instances",
    "graphmill.testing.sweep_values": "graphmill.testing.generators.op_values",
    "graphmill.testing.tensorflow_oracle": "graphmill.testing.oracle.tensorflow_oracle",
    "graphmill.testing.tier_runner": "graphmill.testing.runners.tier_runner",
    "graphmill.testing.twin_ops": "graphmill.testing.fakes.twin_ops",
    "graphmill.testing.variable_graphs": "graphmill.testing.generators.variable_graphs",
    "graphmill.testing.wrapped_hosts": "graphmill.testing.fakes.host_variants",
}
"""New dotted name of a module, by its old one."""

RENAMED_NAMES: dict[str, dict[str, str]] = {
    "graphmill.spi.cluster": {"give_back": "copy_message"},
    "graphmill.spi.compilers": {"LentMemory": "TransferredMemory", "Story": "TransitionHistory"},
    "graphmill.spi.kernels": {"DISTINCT_ROWS": "UNIQUE_INDICES"},
    "graphmill.testing.conformance.clauses": {
        "ROWS_ATTRIBUTE": "CLAUSES_ATTRIBUTE",
        "rows": "clauses",
    },
    "graphmill.testing.differential.gradients": {"judge": "classify"},
    "graphmill.testing.differential.op_instances": {
        "judge": "classify",
        "outcome_without_answer": "outcome_without_result",
    },
    "graphmill.testing.fakes.chaos_plugin": {"RestlessPlugin": "ChaosPlugin"},
    "graphmill.testing.fakes.strict_device": {
        "BoxedDevice": "StrictDevice",
        "BoxedDeviceFactory": "StrictDeviceFactory",
    },
    "graphmill.testing.fakes.third_party_plugin": {"ForeignPlugin": "ThirdPartyPlugin"},
    "graphmill.testing.golden": {
        "Answer": "CaseResult",
        "read_answers": "read_results",
        "stored_answers": "stored_results",
        "write_answers": "write_results",
    },
    "graphmill.testing.dtype_coverage": {
        "Asked": "CoveredTypes",
        "types_asked": "covered_types",
    },
    "graphmill.testing.oracle.gradient_results": {
        "Question": "GradientGraph",
        "Wish": "GradientRequest",
        "ask_graphmill": "graphmill_gradients",
        "ask_tensorflow": "tensorflow_gradients",
        "question": "gradient_graph",
    },
    "graphmill.testing.oracle.tensorflow_oracle": {"ask": "run_case"},
    "graphmill.testing.runners.kernel_runner": {
        "answer_of": "result_of",
        "checked_answer": "checked_result",
    },
    "graphmill.testing.runners.subprocess_runner": {"AnswerProcess": "CaseProcess"},
    "graphmill.testing.runners.tier_runner": {"TierAnswer": "TierResult"},
    "graphmill.testing.timeouts": {
        "PATIENCE": "TIMEOUT",
        "no_thread_stays": "no_leaked_threads",
    },
}
"""New name by the old one, for each module; its `__getattr__` calls `renamed_name`."""

RENAMED_PASSES: dict[str, str] = {"reads_first": "read_before_write"}
"""New name of a graph pass, by its old one."""


def names_pass(names: Collection[str], name: str) -> bool:
    """Return whether `names` contains a pass, by its name or (with a warning) by its old name."""
    if name in names:
        return True
    old = next((old for old in names if RENAMED_PASSES.get(old) == name), None)
    if old is None:
        return False
    warnings.warn(
        f"the graph pass {old!r} is now {name!r}; use the new name, because the next version "
        "removes the old one",
        DeprecationWarning,
        stacklevel=3,
    )
    return True


def warn_renamed(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn that an attribute or method was called by its old name.

    Args:
        old: its class and old name, such as `"Variable.kept"`.
        new: its new name.
        stacklevel: the number of frames from the warning to the code at fault.
    """
    warnings.warn(
        f"{old} is now {new!r}; use the new name, because the next version removes the old one",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def renamed_argument(options: dict[str, Any], old: str, new: str, value: Any) -> Any:
    """Return the value of an argument that the caller may give by its old name, with a warning.

    Args:
        options: the other keyword arguments of the call; the old name is removed.
        old: the old name of the argument.
        new: its new name.
        value: its value under the new name.
    """
    if old not in options:
        return value
    warn_renamed(f"the argument {old!r}", new, stacklevel=4)
    return options.pop(old)


def renamed_arguments(**new_names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let callers pass arguments of the decorated function by their old names, with a warning.

    Args:
        new_names: the new name of each renamed argument, by the old one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in new_names.keys() & kwargs.keys():
                new = new_names[old]
                if new in kwargs:
                    raise TypeError(
                        f"{function.__qualname__}() got both {new!r} and its old name {old!r}"
                    )
                warn_renamed(f"the argument {old!r} of {function.__qualname__}", new)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def deprecated_aliases(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept argument names that TensorFlow deprecated but still takes, with a warning.

    They stay, unlike those of `renamed_arguments`. As in TensorFlow, None is no value.

    Args:
        names: the present name of each argument, by the deprecated one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if kwargs and not names.keys().isdisjoint(kwargs):
                _rename(kwargs, names, function, args)
            return function(*args, **kwargs)

        call.deprecated_aliases = names  # type: ignore[attr-defined]
        return call

    return decorate


def _rename(
    kwargs: dict[str, Any],
    names: dict[str, str],
    function: Callable[..., Any],
    args: tuple[Any, ...],
) -> None:
    """Replace deprecated names of keyword arguments by the present ones."""
    positions = list(inspect.signature(function).parameters)
    for old in names.keys() & kwargs.keys():
        new, value = names[old], kwargs.pop(old)
        if value is None:
            continue
        position = positions.index(new)
        given = args[position] if position < len(args) else kwargs.get(new)
        if given is not None:
            raise InvalidValueError(f"Cannot specify both {old!r} and {new!r}.")
        if position < len(args):
            raise TypeError(f"{function.__qualname__}() got {old!r} and None for {new!r}")
        kwargs[new] = value
        warnings.warn(
            f"the argument {old!r} of {function.__qualname__} is deprecated, as in TensorFlow; "
            f"use {new!r}",
            DeprecationWarning,
            stacklevel=3,
        )


def renamed_name(module: str, name: str) -> Any:
    """Return the module attribute that was once named `name`, with a warning.

    Raises:
        AttributeError: the module never had this name.
    """
    new = RENAMED_NAMES.get(module, {}).get(name)
    if new is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        f"{module}.{name} is now {new!r}; use the new name, because the next version removes the "
        "old one",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(sys.modules[module], new)


class _AliasLoader(Loader):
    """Load the new module in place of the old one."""

    def __init__(self, new: str) -> None:
        self._new = new
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import and return the new module, so that both names refer to the same module."""
        warnings.warn(
            f"the module {spec.name!r} is now {self._new!r}; import it by the new name, "
            "because the next version removes the old one",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(self._new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own spec; the module was already executed under its new name."""
        module.__spec__ = self._spec


class RenamedModuleFinder(MetaPathFinder):
    """Find modules by their old names; the last finder, so other imports are not slowed down."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the signature is Python's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return the spec of a renamed module, or None for any other module."""
        new = RENAMED_MODULES.get(fullname)
        return ModuleSpec(fullname, _AliasLoader(new)) if new else None


def install_module_aliases() -> None:
    """Make the old names of `RENAMED_MODULES` importable; calling it again does nothing."""
    if not any(isinstance(finder, RenamedModuleFinder) for finder in sys.meta_path):
        sys.meta_path.append(RenamedModuleFinder())
