"""Generate random instances of ops: with other types, shapes, values and attrs than the cases.

An instance is a table of the case language, so an interesting one can be added to the cases. Some
instances are drawn from the OpDef alone. Most are a stored case of the op, whose inputs are
compatible, with a few changes. A seed gives the same instances everywhere.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

from graphmill.ops.definition.effects import effects_of
from graphmill.testing.case import parse_cases
from graphmill.testing.case_inputs import SpecError, parse_input
from graphmill.testing.case_writer import Table, case_text, table_of
from graphmill.testing.generators import op_values
from graphmill.testing.oracle.cpu_types import cpu_types
from graphmill.testing.tolerances import tolerance_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
    from graphmill.testing.case import Case

OUTSIDE_EFFECTS = frozenset(("fs.read", "fs.write", "net", "process", "python", "clock"))
"""Effects of ops that reach, or depend on, what is outside the session."""
_FROM_SCRATCH = 0.2
_NOT_CHANGED = frozenset(("seed", "seed2", "container", "shared_name", "Toutput_types"))
_OPAQUE = frozenset(("resource", "variant"))  # their values cannot be written as text


class Sweep:
    """Draws random instances of one op.

    Args:
        op_def: the op.
        cases: the stored cases of the op; those that differ from TensorFlow on purpose are ignored.
        seed: the seed of the draws.
    """

    def __init__(self, op_def: OpDef, cases: Sequence[Case], seed: int) -> None:
        self._op_def = op_def
        self._cases = [case for case in cases if not case.differs]
        self._random = random.Random(f"{op_def.name}|{seed}")
        self._changes: tuple[Callable[[Table], None], ...] = (
            *(self._retype, self._reshape, self._reshape, self._revalue, self._revalue),
            *(self._reattr, self._reattr, self._redraw),
        )

    def texts(self, count: int) -> Iterator[str]:
        """Yield instances as texts of case files with one case each."""
        for _ in range(count if self._cases else 0):
            text = self._without_huge_values(
                case_text(self._op_def.name, self._seeded(self._table()))
            )
            if _can_be_drawn(text):
                yield text

    def _seeded(self, table: Table) -> Table:
        """Set a seed if the op draws random numbers, so that they can be compared."""
        is_drawing = any(attr.name == "seed2" for attr in self._op_def.attrs)
        has_seed = any(table.get(name) for name in ("seed", "seed2"))
        if is_drawing and not has_seed and "in" in table and table.get("compare") != "shape":
            table["seed"] = table["seed2"] = 87
        return table

    def _without_huge_values(self, text: str) -> str:
        """Remove huge values from sums, whose overflow depends on the order of summation."""
        if not tolerance_of(self._op_def.name).by_scale:
            return text
        return re.sub(r"special( finite)?(?! small)", "special small", text)

    def _table(self) -> Table:
        if self._random.random() < _FROM_SCRATCH and self._is_drawable():
            return self._drawn()
        table = table_of(self._random.choice(self._cases))
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3))):
            try:
                self._random.choice(self._changes)(table)
            except (SpecError, ValueError, OverflowError, TypeError):  # not in the new type
                continue
        return table

    # ------------------------------------------------------------------------------- from the OpDef

    def _is_drawable(self) -> bool:
        inputs = self._op_def.input_args
        return bool(inputs) and all(
            not arg.is_ref and (arg.type is None or arg.type.name not in _OPAQUE) for arg in inputs
        )

    def _drawn(self) -> Table:
        """Draw everything: one or two shapes for all inputs, and a dtype for each type attr."""
        draw = self._random
        types = {
            a.name: draw.choice(self._types(a)) for a in self._op_def.attrs if a.type == "type"
        }
        shapes = [op_values.shape(draw) for _ in range(2)]
        table: Table = {
            "in": [self._drawn_input(arg, types, shapes) for arg in self._op_def.input_args]
        }
        for attr in self._op_def.attrs:
            if self._is_inferred(attr):
                continue
            if attr.type == "type":
                table[attr.name] = types[attr.name]
            elif not attr.has_default or draw.random() < 0.3:
                value = op_values.attr(draw, attr, None)
                if value is not None:
                    table[attr.name] = value
        table["draw"] = draw.randrange(10_000)
        return table

    def _drawn_input(
        self, arg: ArgDef, types: dict[str, str], shapes: list[tuple[int, ...]]
    ) -> Any:
        def one() -> str:
            name = arg.type.name if arg.type else types.get(arg.type_attr, "")
            name = name or self._random.choice(("float32", "int32", "int64", "string"))
            return op_values.tensor(self._random, name, self._random.choice(shapes))

        return [one() for _ in range(self._random.randrange(4))] if arg.is_list else one()

    def _types(self, attr: AttrDef) -> tuple[str, ...]:
        """Return dtypes to test: those of TensorFlow's CPU kernels, and sometimes others."""
        allowed = tuple(t.name for t in attr.allowed) or op_values.TYPES
        on_cpu = cpu_types().get(self._op_def.name, {}).get(attr.name, ())
        names = on_cpu if on_cpu and self._random.random() < 0.9 else allowed
        return tuple(sorted(set(names) - _OPAQUE)) or ("float32",)

    # --------------------------------------------------------------------------- changes to a case

    def _retype(self, table: Table) -> None:
        attrs = [attr for attr in self._op_def.attrs if attr.type == "type"]
        if not attrs:
            return
        attr = self._random.choice(attrs)
        new = self._random.choice(self._types(attr))
        if "in" not in table:
            _retype_program(table, attr.name, new)
            return
        if attr.name in table:
            table[attr.name] = new
        for index, arg in enumerate(self._op_def.input_args):
            if arg.type_attr == attr.name:
                old = table["in"][index]
                table["in"][index] = (
                    [op_values.retyped(one, new) for one in old]
                    if isinstance(old, list)
                    else op_values.retyped(old, new)
                )

    def _reshape(self, table: Table) -> None:
        """Change the shape of an input, often together with all inputs of the same shape."""
        paths = _input_paths(table)
        if not paths:
            return
        chosen = self._random.choice(paths)
        old = _values_shape(_get(table, chosen))
        new = op_values.other_shape(self._random, old)
        together = self._random.random() < 0.6
        for path in paths:
            text = _get(table, path)
            if path == chosen or (together and _values_shape(text) == old):
                _set(table, path, op_values.reshaped(self._random, text, new))

    def _revalue(self, table: Table) -> None:
        paths = _input_paths(table)
        if paths:
            path = self._random.choice(paths)
            _set(table, path, op_values.other_values(self._random, _get(table, path)))

    def _reattr(self, table: Table) -> None:
        attrs = [
            attr
            for attr in self._op_def.attrs
            if attr.name not in _NOT_CHANGED and not self._is_inferred(attr)
        ]
        if not attrs or "nodes" in table:
            return
        attr = self._random.choice(attrs)
        if attr.type == "type":
            table[attr.name] = self._random.choice(self._types(attr))
            return
        value = op_values.attr(self._random, attr, table.get(attr.name))
        if value is not None:
            table[attr.name] = value

    def _redraw(self, table: Table) -> None:
        table["draw"] = self._random.randrange(10_000)

    def _is_inferred(self, attr: AttrDef) -> bool:
        return any(
            attr.name in (arg.type_attr, arg.number_attr, arg.type_list_attr)
            for arg in self._op_def.input_args
        )


_Path = tuple[Any, ...]


def _retype_program(table: Table, attr: str, new: str) -> None:
    old = table.get(attr)
    if not isinstance(old, str):
        return
    table[attr] = new
    for name, text in table["feed"].items():
        if parse_input(text, {}, "").dtype == old:
            table["feed"][name] = op_values.retyped(text, new)


def _input_paths(table: Table) -> list[_Path]:
    """Return the path of keys to each input in the table."""
    if "feed" in table:
        return [("feed", name) for name in table["feed"]]
    paths: list[_Path] = []
    for index, tree in enumerate(table["in"]):
        if isinstance(tree, list):
            paths += [("in", index, item) for item in range(len(tree))]
        else:
            paths.append(("in", index))
    return paths


def _get(table: Table, path: _Path) -> str:
    value: Any = table
    for key in path:
        value = value[key]
    return str(value)


def _set(table: Table, path: _Path, text: str) -> None:
    holder: Any = table
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = text


def _can_be_drawn(text: str) -> bool:
    try:
        (case,) = parse_cases(text, "sweep")
        case.values()
        _ = case.program and [one.values() for one in case.program.feed.values()]
    except (SpecError, ValueError, OverflowError, TypeError):  # not in this type, or sorted scalars
        return False
    return True


def _values_shape(text: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = parse_input(text, {}, "").values().shape
    return shape


def is_swept(op_def: OpDef) -> bool:
    """Return whether instances of an op can run without external effects."""
    functions = any(attr.type in ("func", "list(func)") for attr in op_def.attrs)
    return not (functions or OUTSIDE_EFFECTS & effects_of(op_def))
