"""`OpRegistry`: op definitions by name, TensorFlow's bundled ones and plugins' own.

The bundled file `op_defs.jsonl` is indexed by name when the first op is asked for (about a
millisecond) and parsed one line at a time. That data never changes, so all registries share what is
parsed of it; each has its own additions.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_def_json import op_def_from_json
from graphmill.ops.definition.op_def_validation import validate_op_def
from graphmill.ops.definition.op_traits import DEFAULT_TRAITS, OpTraits
from graphmill.registry import CORE, PluginConflictError, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.ops.inference.shape_inference import ShapeFunction
    from graphmill.ops.inference.value_inference import ValueFunction

_NAME_START: Final = len('{"name":"')
_FAMILY_KEY: Final = b'"family":"'
TESTING_FAMILY: Final = "testing"
"""The family of the ops that TensorFlow's own tests define; their names are free for others."""

OP_ATTRIBUTE: Final = "__graphmill_op__"
"""Where a function that defines an op (see `graphmill.ops.definition.define`) carries its
`OpDef`."""


class BundledOps:
    """TensorFlow's op definitions, as the package ships them.

    Threads: reading is safe from any; two that ask at once may parse the same line twice.
    """

    def __init__(self, content: bytes) -> None:
        # Bytes are half the cost of text here: nothing is decoded that is not asked for.
        self._lines = {
            line[_NAME_START : line.index(b'"', _NAME_START)]: line
            for line in content.rstrip().split(b"\n")
        }
        self._parsed: dict[str, OpDef] = {}
        self._names: tuple[str, ...] = ()
        self._families: dict[str, list[str]] | None = None

    def get(self, name: str) -> OpDef | None:
        """Return a definition, or None."""
        found = self._parsed.get(name)
        if found is None:
            line = self._lines.get(name.encode())
            if line is None:
                return None
            found = self._parsed[name] = op_def_from_json(line)
        return found

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        if not self._names:
            self._names = tuple(key.decode() for key in self._lines)
        return self._names

    def families(self) -> dict[str, list[str]]:
        """Return the names of each family's ops; nothing is parsed for it."""
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
    """An op that was added, and by whom."""

    op_def: OpDef
    owner: Provenance | str
    replace: bool


class OpRegistry:
    """The ops that a host or a graph knows: TensorFlow's, and those that plugins add.

    Threads: `get` and the other readers are safe from any; `add` is meant for the time when a host
    is assembled, before others read.
    """

    def __init__(self, *, failures: Callable[[], Iterable[str]] = tuple) -> None:
        """Make a registry of TensorFlow's ops.

        Args:
            failures: return a line for each plugin that is not used, for "unknown op" messages.
        """
        self._failures = failures
        self._added: dict[str, OpDef] = {}
        self._additions: dict[str, list[_Addition]] = {}

    def get(self, name: str) -> OpDef:
        """Return the definition of an op.

        Raises:
            NotFoundError: there is no such op; the message names near matches, and the plugins
                that failed to load.
        """
        found = self.find(name)
        if found is None:
            failures = "".join(f"\n  {line}" for line in self._failures())
            raise NotFoundError(
                f"unknown op {name!r}{suggest(name, self.names())}; TensorFlow's ops are known, "
                "others come from plugins (graphmill_register_ops)"
                + (f". Plugins that are not used:{failures}" if failures else ""),
                op=name,
            )
        return found

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

        The outcome does not depend on the order in which plugins add.

        Args:
            op: an `OpDef`, its message, or a function that `graphmill.ops.definition.define.op`
                decorated.
            owner: who brings it (a plugin), for messages and `withdraw`.
            replace: take the place of an op of that name.
            shape: its shape function, where the definition carries none: see
                `graphmill.ops.inference.shape_inference`.
            value: its value function, where the definition carries none: see
                `graphmill.ops.inference.value_inference`.
            traits: how it behaves, where the definition carries no traits: see
                `graphmill.ops.definition.op_traits`.

        Raises:
            PluginConflictError: another definition has the name; the message names both owners.
                (The same definition again is fine, and names of ops that only TensorFlow's own
                tests define are free.)
            InvalidArgumentError: the definition is not sound.
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
        validate_op_def(op_def)
        addition = _Addition(op_def, owner, replace)
        self._refuse_rivals(addition)
        if _says_more(op_def, bundled_ops().get(op_def.name)):
            self._additions.setdefault(op_def.name, []).append(addition)
            self._choose(op_def.name)
        return op_def

    def withdraw(self, owner: Provenance | str) -> None:
        """Remove the ops that `owner` added, as if they had never been there."""
        for name, additions in list(self._additions.items()):
            additions[:] = [addition for addition in additions if addition.owner != owner]
            self._choose(name)

    def _choose(self, name: str) -> None:
        """Let the addition of a name that replaces win, or the first of those that are the same."""
        additions = self._additions[name]
        if additions:
            additions.sort(key=lambda addition: not addition.replace)
            self._added[name] = additions[0].op_def
        else:
            del self._additions[name], self._added[name]

    def _refuse_rivals(self, addition: _Addition) -> None:
        """Raise if an op of that name is defined differently with the same right."""
        op_def = addition.op_def
        for other in self._additions.get(op_def.name, ()):
            if other.replace == addition.replace and not _are_same(other.op_def, op_def):
                raise _conflict(op_def.name, addition.owner, other.owner)
        bundled = bundled_ops().get(op_def.name)
        is_free = bundled is None or bundled.family == TESTING_FAMILY
        if not (is_free or addition.replace or bundled == op_def):
            raise _conflict(op_def.name, addition.owner, CORE)

    def provenance(self, name: str) -> Provenance | str:
        """Return who brought an op: core for TensorFlow's, else the owner given to `add`."""
        return self._additions[name][0].owner if name in self._additions else CORE

    def owner(self, name: str) -> str:
        """Return who brought an op: "TensorFlow" for the bundled ones, else the owner given.

        Raises:
            NotFoundError: there is no such op.
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
        """Return the family of an op ("" for an added op that names none).

        Raises:
            NotFoundError: there is no such op.
        """
        if name not in self._added:
            bundled = bundled_ops().family(name)
            if bundled is not None:
                return bundled
        return self.get(name).family

    def ops_in(self, family: str) -> list[str]:
        """Return the names of a family's ops, sorted.

        Raises:
            NotFoundError: there is no such family.
        """
        names = {
            name for name in bundled_ops().families().get(family, ()) if name not in self._added
        }
        names.update(op_def.name for op_def in self._added.values() if op_def.family == family)
        if not names:
            raise NotFoundError(
                f"there is no family of ops {family!r}{suggest(family, self.families())}; "
                f"there are {', '.join(self.families())}"
            )
        return sorted(names)


def _says_more(op_def: OpDef, bundled: OpDef | None) -> bool:
    """Return whether a definition is another one than TensorFlow's, or declares more than it."""
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


def _conflict(name: str, new: Provenance | str, known: Provenance | str) -> PluginConflictError:
    error = PluginConflictError(
        f"op {name!r} of {_owner_name(new)} is defined already, differently, by "
        f"{_owner_name(known)}; choose another name (a prefix such as 'MyPackage>Name' keeps it "
        "apart) or say replace=True",
        owners=tuple(owner for owner in (known, new) if isinstance(owner, Provenance)),
    )
    error.locate(op=name)
    return error


def as_op_def(op: Any) -> OpDef:
    """Return the definition that an `OpDef`, a message of it, or a decorated function stands for.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    carried = getattr(op, OP_ATTRIBUTE, op)
    if isinstance(carried, OpDef):
        return carried
    if hasattr(carried, "input_arg"):
        return OpDef.from_proto(carried)
    raise InvalidArgumentError(
        f"{op!r} defines no op; give an OpDef, its message, or a function decorated with @op"
    )
