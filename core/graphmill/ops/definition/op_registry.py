"""`OpRegistry`: op definitions by name, those of TensorFlow and of plugins.

The first look-up indexes the bundled file `op_defs.jsonl` by name (about a millisecond); each line
is parsed on demand. This data never changes, so all registries share the parsed definitions; each
registry has its own additions.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_def_json import op_def_from_json
from graphmill.ops.definition.op_def_validation import validate_op_def, with_canonical_values
from graphmill.ops.definition.op_traits import DEFAULT_TRAITS, OpTraits
from graphmill.registry import CORE, PluginConflictError, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.ops.inference.shape_inference import ShapeFunction
    from graphmill.ops.inference.value_inference import ValueFunction

_NAME_START: Final = len('{"name":"')
_FAMILY_KEY: Final = b'"family":"'
TESTING_FAMILY: Final = "testing"
"""The family of ops that TensorFlow's own tests define; plugins may use their names."""

OP_ATTRIBUTE: Final = "__graphmill_op__"
"""The attribute with the `OpDef` of a function that `graphmill.ops.definition.define.op` decorated.
"""


class BundledOps:
    """TensorFlow's op definitions, which are part of the package.

    Threads: reading is thread-safe; concurrent look-ups may parse the same line twice.
    """

    def __init__(self, content: bytes) -> None:
        # Bytes cost half as much as text: only the requested lines are decoded.
        self._lines = {
            line[_NAME_START : line.index(b'"', _NAME_START)]: line
            for line in content.rstrip().split(b"\n")
        }
        self._parsed: dict[str, OpDef] = {}
        self._names: tuple[str, ...] = ()
        self._families: dict[str, list[str]] | None = None

    def get(self, name: str) -> OpDef | None:
        """Return a definition, or None."""
        op_def = self._parsed.get(name)
        if op_def is None:
            line = self._lines.get(name.encode())
            if line is None:
                return None
            op_def = self._parsed[name] = op_def_from_json(line)
        return op_def

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        if not self._names:
            self._names = tuple(key.decode() for key in self._lines)
        return self._names

    def families(self) -> dict[str, list[str]]:
        """Return the names of each family's ops, without parsing them."""
        if self._families is None:
            families: dict[str, list[str]] = {}
            for name, line in self._lines.items():
                families.setdefault(self._family_in(line), []).append(name.decode())
            self._families = families
        return self._families

    def family(self, name: str) -> str | None:
        """Return the family of an op without parsing it; None for an unknown op."""
        line = self._lines.get(name.encode())
        return None if line is None else self._family_in(line)

    @staticmethod
    def _family_in(line: bytes) -> str:
        start = line.index(_FAMILY_KEY) + len(_FAMILY_KEY)
        return line[start : line.index(b'"', start)].decode()


@cache
def bundled_ops() -> BundledOps:
    """Return TensorFlow's op definitions; indexed on the first call."""
    return BundledOps(Path(__file__).with_name("op_defs.jsonl").read_bytes())


def same_bundled(op_def: OpDef) -> OpDef | None:
    """Return TensorFlow's op of that name if its definition is the same; None otherwise."""
    bundled = bundled_ops().get(op_def.name)
    return bundled if bundled is op_def or bundled == op_def else None


class _Addition(NamedTuple):
    """An added op and its owner."""

    op_def: OpDef
    owner: Provenance | str
    replace: bool


class OpRegistry:
    """The ops of a host or a graph: TensorFlow's, and those that plugins add.

    Threads: `get` and the other readers are thread-safe; `add` may only be called while a host is
    assembled, before other threads read.

    Attributes:
        installed: returns the ops of TensorFlow and of the installed plugins; the package sets it,
            because this layer knows no hosts.
    """

    installed: ClassVar[Callable[[], OpRegistry] | None] = None

    def __init__(
        self,
        *,
        failures: Callable[[], Iterable[str]] = tuple,
        fallback: Callable[[], OpRegistry] | None = None,
    ) -> None:
        """Create a registry of TensorFlow's ops.

        Args:
            failures: returns a line for each plugin that is not used, for "unknown op" messages.
            fallback: returns the registry in which `get` looks up ops that this one lacks.
        """
        self._failures = failures
        self._fallback = fallback
        self._added: dict[str, OpDef] = {}
        self._additions: dict[str, list[_Addition]] = {}

    def get(self, name: str) -> OpDef:
        """Return the definition of an op.

        Raises:
            NotFoundError: the op does not exist; the message names near matches, and the plugins
                that failed to load.
        """
        op_def = self.find(name)
        if op_def is None and self._fallback is not None:
            return self._fallback().get(name)
        if op_def is None:
            from graphmill.tensorflow_names import hint

            failures = "".join(f"\n  {line}" for line in self._failures())
            advice = f"{suggest(name, self.names())}{hint(name)}"
            it = " It" if advice.endswith("?") else "; it"
            raise NotFoundError(
                f"unknown op {name!r}{advice}{it} is not one of TensorFlow's ops, and "
                "no plugin registers it (graphmill_register_ops)"
                + (f". Plugins that are not used:{failures}" if failures else ""),
                op_type=name,
            )
        return op_def

    def find(self, name: str) -> OpDef | None:
        """Return the definition of an op, or None."""
        return (self._added.get(name) if self._added else None) or bundled_ops().get(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def add(
        self,
        op: Any,
        *,
        owner: Provenance | str = "",
        replace: bool = False,
        shape: ShapeFunction | None = None,
        value: ValueFunction | None = None,
        traits: OpTraits | None = None,
    ) -> OpDef:
        """Add an op and return its definition.

        The result does not depend on the order in which plugins add ops.

        Args:
            op: an `OpDef`, its message, or a function that `graphmill.ops.definition.define.op`
                decorated.
            owner: the plugin that supplies it, for messages and `withdraw`.
            replace: replace an op of the same name.
            shape: its shape function, if the definition has none: see
                `graphmill.ops.inference.shape_inference`.
            value: its value function, if the definition has none: see
                `graphmill.ops.inference.value_inference`.
            traits: its traits, if the definition has none: see
                `graphmill.ops.definition.op_traits`.

        Raises:
            PluginConflictError: the name has another definition; the message names both owners.
                (Adding the same definition again is allowed, and so are names of ops that only
                TensorFlow's own tests define.)
            InvalidArgumentError: the definition is invalid.
        """
        op_def = as_op_def(op)
        if shape is not None:
            op_def = dataclasses.replace(op_def, shape_function=shape)
        if value is not None:
            op_def = dataclasses.replace(op_def, value_function=value)
        if traits is not None:
            op_def = dataclasses.replace(op_def, traits=traits)
        elif op_def.traits is DEFAULT_TRAITS and (bundled := same_bundled(op_def)) is not None:
            op_def = dataclasses.replace(op_def, traits=bundled.traits)
        op_def = with_canonical_values(op_def)
        validate_op_def(op_def)
        addition = _Addition(op_def, owner, replace)
        self._check_conflicts(addition)
        if _adds_to_bundled(op_def, bundled_ops().get(op_def.name)):
            self._additions.setdefault(op_def.name, []).append(addition)
            self._choose(op_def.name)
        return op_def

    def withdraw(self, owner: Provenance | str) -> None:
        """Remove the ops that `owner` added."""
        for name, additions in list(self._additions.items()):
            additions[:] = [addition for addition in additions if addition.owner != owner]
            self._choose(name)

    def _choose(self, name: str) -> None:
        """Choose among the additions of a name: one with `replace`, or the first of equal ones."""
        additions = self._additions[name]
        if additions:
            additions.sort(key=lambda addition: not addition.replace)
            self._added[name] = additions[0].op_def
        else:
            del self._additions[name], self._added[name]

    def _check_conflicts(self, addition: _Addition) -> None:
        """Raise if there is a different definition of the name with the same `replace`."""
        op_def = addition.op_def
        for other in self._additions.get(op_def.name, ()):
            if other.replace == addition.replace and not _are_same(other.op_def, op_def):
                raise _conflict(op_def.name, addition.owner, other.owner)
        bundled = bundled_ops().get(op_def.name)
        is_free = bundled is None or bundled.family == TESTING_FAMILY
        if not (is_free or addition.replace or bundled == op_def):
            raise _conflict(op_def.name, addition.owner, CORE)

    def provenance(self, name: str) -> Provenance | str:
        """Return the owner of an op: core for TensorFlow's ops, else the owner passed to `add`."""
        return self._additions[name][0].owner if name in self._additions else CORE

    def owner(self, name: str) -> str:
        """Return the owner of an op as text: "TensorFlow" for TensorFlow's ops.

        Raises:
            NotFoundError: the op does not exist.
        """
        self.get(name)
        return _owner_name(self.provenance(name))

    def names(self) -> list[str]:
        """Return the names of all ops, sorted."""
        return sorted({*bundled_ops().names(), *self._added})

    def families(self) -> list[str]:
        """Return the names of all families, sorted."""
        added = {op_def.family for op_def in self._added.values() if op_def.family}
        return sorted({*bundled_ops().families(), *added})

    def family(self, name: str) -> str:
        """Return the family of an op ("" for an added op without a family).

        Raises:
            NotFoundError: the op does not exist.
        """
        if name not in self._added:
            bundled = bundled_ops().family(name)
            if bundled is not None:
                return bundled
        return self.get(name).family

    def ops_in(self, family: str) -> list[str]:
        """Return the names of a family's ops, sorted.

        Raises:
            NotFoundError: the family does not exist.
        """
        names = {
            name for name in bundled_ops().families().get(family, ()) if name not in self._added
        }
        names.update(op_def.name for op_def in self._added.values() if op_def.family == family)
        if not names:
            raise NotFoundError(
                f"there is no family of ops {family!r}{suggest(family, self.families())}; "
                f"families are {', '.join(self.families())}"
            )
        return sorted(names)


def _adds_to_bundled(op_def: OpDef, bundled: OpDef | None) -> bool:
    """Return whether a definition differs from TensorFlow's, or declares additional traits."""
    if op_def != bundled or op_def.shape_function is not None or op_def.value_function is not None:
        return True
    return op_def.traits not in (DEFAULT_TRAITS, bundled.traits)


def _are_same(one: OpDef, other: OpDef) -> bool:
    return (
        one == other
        and one.shape_function is other.shape_function
        and one.value_function is other.value_function
        and one.traits == other.traits
    )


def _owner_name(owner: Provenance | str) -> str:
    return "TensorFlow" if owner == CORE else str(owner) or "unknown owner"


def _conflict(name: str, new: Provenance | str, existing: Provenance | str) -> PluginConflictError:
    error = PluginConflictError(
        f"op {name!r} of {_owner_name(new)} is already defined differently by "
        f"{_owner_name(existing)}; choose another name (a prefix such as 'MyPackage>Name' avoids "
        "conflicts) or pass replace=True",
        owners=tuple(owner for owner in (existing, new) if isinstance(owner, Provenance)),
    )
    error.locate(op_type=name)
    return error


def as_op_def(op: Any) -> OpDef:
    """Return the definition of an `OpDef`, its message, a decorated function, or a name.

    Raises:
        NotFoundError: no installed op has this name.
        InvalidArgumentError: `op` is none of these.
    """
    if isinstance(op, str):
        return OpRegistry(fallback=OpRegistry.installed).get(op)
    definition = getattr(op, OP_ATTRIBUTE, op)
    if isinstance(definition, OpDef):
        return definition
    if hasattr(definition, "input_arg"):
        return OpDef.from_proto(definition)
    raise InvalidArgumentError(
        f"{op!r} does not define an op; expected an OpDef, its message, a function decorated with "
        "@op, or the name of an installed op"
    )
