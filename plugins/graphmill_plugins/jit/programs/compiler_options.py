"""Choose XLA compiler options for a program by the operations in it.

XLA:CPU can compute products, convolutions and sums with YNNPACK or with its own code (Eigen for
products and convolutions). By default it uses YNNPACK for all, which computes convolutions on one
core. The measurements are in `docs/explanation/jax-kernels-on-cpu.md`.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import jax
from jax.extend import core

from graphmill_plugins.jit.programs import onednn
from graphmill_plugins.jit.programs.hoist import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_YNN: Final = "xla_cpu_experimental_ynn_fusion_type"
_DISABLED: Final = "xla_disable_hlo_passes"
_BARRIER_PASS: Final = "cse_barrier_expander"
_FUSION_PASS: Final = "fusion"
_MANY_FUNCTIONS: Final = 500
_MANY_SHARED_FUNCTIONS: Final = 16
_MANY_REPETITIONS: Final = 1000  # about 0.15 s
_REPETITIONS_PER_OPERATION: Final = 4  # compiled in the time of an operation that is not fused
# XLA writes out each of these functions as dozens of instructions wherever it is fused.
_FUNCTIONS: Final = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "digamma",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "lgamma", "log", "log1p", "logistic", "pow",
    "sin", "sinh", "tan", "tanh",
})  # fmt: skip
_PRODUCTS: Final = frozenset({"conv_general_dilated", "dot_general"})  # what XLA does not fuse
_MAX_CACHED_BYTES: Final = 4096  # size in bytes of a tensor that stays in the nearest cache
_LOOPS: Final = frozenset({"while", "scan"})  # what is compiled once runs often
_MIN_MEAN_WORK: Final = 1 << 23  # multiplications of a product, about 0.1 ms on one core
_FIRST_VERSION: Final = (0, 12)  # of JAX, in which YNNPACK is faster for large products
_SUMS: Final = "LIBRARY_FUSION_TYPE_REDUCE"
_SUMS_AND_PRODUCTS: Final = f"{_SUMS},LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"


def compiler_options_for(
    closed: core.ClosedJaxpr, platform: str = "cpu", *, is_kept: bool = False
) -> dict[str, Any]:
    """Return `compiler_options` for a traced program.

    The options do not depend on timings, so they are always the same for a program on one kind of
    machine.

    Args:
        closed: the program.
        platform: the platform of the device, as JAX names it.
        is_kept: whether the compiled program is written to a folder, for later processes.
    """
    if platform != "cpu":
        return {}
    names = Counter(primitives(closed.jaxpr))
    options: dict[str, Any] = {}
    has_convolutions = "conv_general_dilated" in names
    equations = list(operations(closed.jaxpr, platform)) if has_convolutions else []
    if names.keys() & _PRODUCTS:
        are_for_ynn = not has_convolutions or _are_products_large(equations)
        options[_YNN] = _SUMS_AND_PRODUCTS if are_for_ynn else _SUMS
    if not is_kept and onednn.is_for_onednn(equations):
        options |= dict.fromkeys(onednn.OPTIONS, True)
    if _is_fusion_slow(closed.jaxpr, names):
        options[_DISABLED] = _FUSION_PASS
    elif "optimization_barrier" in names:
        # This pass would remove the barriers before the fusion that they must prevent.
        options[_DISABLED] = _BARRIER_PASS
    return {name: value for name, value in options.items() if _is_supported(name, value)}


def _are_products_large(equations: Iterable[core.JaxprEqn]) -> bool:
    """Return whether the products of a program with convolutions are large enough for YNNPACK.

    YNNPACK divides large products, and stacks of them, better among threads. Beside convolutions,
    which Eigen computes in any case, small ones are faster with Eigen, too.
    """
    if jax.version.__version_info__[:2] < _FIRST_VERSION:
        return False
    work = [onednn.work_of_product(eqn) for eqn in equations if eqn.primitive.name == "dot_general"]
    return sum(work) >= _MIN_MEAN_WORK * max(len(work), 1)


def _is_fusion_slow(jaxpr: core.Jaxpr, names: Counter[str]) -> bool:
    """Return whether fusing the program's operations would take long and gain little.

    The time to compile a fusion grows faster than the number of functions in it (see `_FUNCTIONS`);
    products and convolutions end a fusion. A function whose result is read several times becomes a
    fusion of its own, and the operations between two of these are repeated in several fusions.
    Fusing saves memory traffic, of which small tensors cause little. Additions and similar
    operations compile faster fused than one by one, unless many fusions repeat them.
    """
    if names.keys() & _LOOPS:
        return False
    sizes = [bytes_of(variable) for eqn in jaxpr.eqns for variable in eqn.outvars]
    if sum(sizes) > _MAX_CACHED_BYTES * len(sizes):
        return False
    return _has_many_functions(jaxpr, names) or _repeats_much(jaxpr)


def _has_many_functions(jaxpr: core.Jaxpr, names: Counter[str]) -> bool:
    functions = sum(names[name] for name in _FUNCTIONS)
    stretches = 1 + sum(names[name] for name in _PRODUCTS)
    if functions < _MANY_SHARED_FUNCTIONS * stretches:
        return False
    is_many = functions >= _MANY_FUNCTIONS * stretches
    return is_many or _num_shared_functions(jaxpr) >= _MANY_SHARED_FUNCTIONS * stretches


def _repeats_much(jaxpr: core.Jaxpr) -> bool:
    """Return whether fusing would repeat most operations several times.

    Each result of the program, and each operand of a product, becomes a fusion together with all
    operations that it depends on, back to the program's inputs and the results of products.
    """
    masks: dict[core.Var, int] = {}  # a bit for each operation that a variable depends on
    roots = set(filter(_is_variable, jaxpr.outvars))
    for index, eqn in enumerate(jaxpr.eqns):
        inputs = list(filter(_is_variable, eqn.invars))
        mask = 0
        if eqn.primitive.name in _PRODUCTS:
            roots.update(inputs)
        else:
            mask = 1 << index
            for variable in inputs:
                mask |= masks.get(variable, 0)
        masks.update(dict.fromkeys(eqn.outvars, mask))
    repetitions = sum(masks.get(root, 0).bit_count() for root in roots)
    return repetitions >= max(_MANY_REPETITIONS, _REPETITIONS_PER_OPERATION * len(jaxpr.eqns))


def _num_shared_functions(jaxpr: core.Jaxpr) -> int:
    """Return the number of functions with a result that several operations read."""
    readers = Counter(
        variable for eqn in jaxpr.eqns for variable in set(filter(_is_variable, eqn.invars))
    )
    return sum(
        eqn.primitive.name in _FUNCTIONS and any(readers[one] > 1 for one in eqn.outvars)
        for eqn in jaxpr.eqns
    )


def _is_variable(atom: Any) -> bool:
    return isinstance(atom, core.Var)


def primitives(jaxpr: core.Jaxpr) -> Iterator[str]:
    """Yield the name of each operation, including inner programs."""
    return (eqn.primitive.name for eqn in operations(jaxpr))


def operations(jaxpr: core.Jaxpr, platform: str = "") -> Iterator[core.JaxprEqn]:
    """Yield each operation, including those of inner programs.

    Args:
        jaxpr: the program.
        platform: without what `lax.platform_dependent` computes on others than this; empty for all.
    """
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in _inner_programs(eqn, platform):
            yield from operations(inner, platform)


def platform_branch(eqn: core.JaxprEqn, platform: str) -> core.Jaxpr | None:
    """Return what `lax.platform_dependent` computes on a platform; None for other operations."""
    platforms = eqn.params.get("branches_platforms")
    if platforms is None:
        return None
    # None is for those that have no branch of their own.
    chosen = next(n for n, names in enumerate(platforms) if names is None or platform in names)
    branch: core.Jaxpr = eqn.params["branches"][chosen].jaxpr
    return branch


def _inner_programs(eqn: core.JaxprEqn, platform: str) -> Iterator[core.Jaxpr]:
    branch = platform_branch(eqn, platform) if platform else None
    if branch is not None:
        yield branch
        return
    for value in eqn.params.values():
        for inner in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield inner


@lru_cache(maxsize=16)
def _is_supported(option: str, value: str | bool) -> bool:
    """Return whether the installed XLA version has an option."""
    try:
        jax.jit(lambda x: x + 1).lower(0.0).compile(compiler_options={option: value})
    except jax.errors.JaxRuntimeError:
        return False
    return True
