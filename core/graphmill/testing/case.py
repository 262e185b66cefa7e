"""Read op cases from TOML tables, one `Case` for each combination.

`graphmill.testing.cases` describes the format. This module and `case_inputs` need only NumPy, so
that the script that computes TensorFlow's results can import them in any environment.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.testing.case_inputs import Input, SpecError, parse_input

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FOLDER = Path(__file__).parent / "cases"
RESERVED = frozenset(
    (
        *("in", "each", "label", "note", "draw", "skip", "differs"),
        *("error", "error_from", "expect", "compare", "unspecified", "close"),
        *("feed", "nodes", "run", "functions"),
    )
)
BACKENDS = ("numpy", "jax", "session", "jit")
COMPARISONS = ("close", "exact", "shape", "set")
_FORMAT = 1

InputTree = Input | tuple[Input, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Override the tolerances of one case, with the reason."""

    rtol: float
    atol: float
    why: str


@dataclass(frozen=True, slots=True)
class Program:
    """The nodes of a case that needs more than one op; see `graphmill.testing.case_nodes`."""

    nodes: tuple[str, ...]
    run: tuple[str, ...]
    feed: Mapping[str, Input]
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One op case: op, attrs and inputs.

    `inputs` are in OpDef order; a list input is a tuple of inputs. `attrs` are raw TOML values, in
    which dtypes are names.
    """

    id: str
    stem: str
    op: str
    inputs: tuple[InputTree, ...]
    attrs: Mapping[str, Any]
    error: str = ""
    error_from: str = ""
    compare: str = "close"
    unspecified: tuple[int, ...] = ()
    close: Close | None = None
    skip: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""
    expect: tuple[Input, ...] = ()
    program: Program | None = None

    @property
    def family(self) -> str:
        """Return the op family, which names the case file."""
        return self.stem.split(".")[0]

    def values(self) -> list[Any]:
        """Draw the inputs: an array, or a list of arrays for a list input."""
        return [
            [one.values() for one in tree] if isinstance(tree, tuple) else tree.values()
            for tree in self.inputs
        ]

    @property
    def digest(self) -> str:
        """Return a hash of everything that TensorFlow's result depends on."""
        program = self.program
        content = {
            "format": _FORMAT,
            "op": self.op,
            "inputs": [_digest_input(tree) for tree in self.inputs],
            "attrs": sorted((k, repr(v)) for k, v in self.attrs.items()),
            "program": program
            and [
                program.nodes,
                program.run,
                program.functions,
                sorted((k, _digest_input(v)) for k, v in program.feed.items()),
            ],
        }
        text = json.dumps(content, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_input(tree: InputTree) -> Any:
    if isinstance(tree, tuple):
        return [_digest_input(one) for one in tree]
    return f"{tree.text}#{tree.seed}"


def case_files(folder: Path = FOLDER) -> list[Path]:
    """List the case files, sorted by name."""
    return sorted(folder.glob("*.toml"))


def load_cases(
    *,
    families: Iterable[str] | None = None,
    stems: Iterable[str] | None = None,
    folder: Path = FOLDER,
) -> tuple[Case, ...]:
    """Read the cases in file order: all of them, or those of the given families or files.

    Raises:
        SpecError: a table is malformed, or two cases have the same id.
    """
    selected = None if families is None else set(families)
    files = None if stems is None else set(stems)
    cases = [
        case
        for path in case_files(folder)
        if selected is None or path.stem.split(".")[0] in selected
        if files is None or path.stem in files
        for case in _read(path)
    ]
    _check_unique(cases)
    return tuple(cases)


@functools.cache
def _read(path: Path) -> tuple[Case, ...]:
    return tuple(parse_cases(path.read_text("utf-8"), path.stem))


def parse_cases(text: str, stem: str) -> Iterator[Case]:
    """Expand the text of a case file.

    Raises:
        SpecError: a table is malformed; the error names it.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{stem}.toml is not TOML: {error}") from error
    numbers: Counter[str] = Counter()
    for header, entries in tables.items():
        if not isinstance(entries, list):
            raise SpecError(f"{stem}.toml: write [[{header}]]: an op has a list of tables")
        for op, table in itertools.product(header.split(), entries):
            try:
                yield from _expand(op, numbers[op], table, stem)
            except SpecError as error:
                where = f"{stem}.toml, table {numbers[op]} of {op}"
                raise SpecError(f"{where}: {error}") from error
            numbers[op] += 1


def _expand(op: str, index: int, table: dict[str, Any], stem: str) -> Iterator[Case]:
    """Yield one case for each combination of a table's sweeps."""
    fixed = {key: value for key, value in table.items() if key != "each"}
    sweeps = table.get("each", {})
    part = stem.partition(".")[2]
    label = str(fixed.get("label", index))
    label = f"{part}.{label}" if part else label
    for picks in itertools.product(*(enumerate(values) for values in sweeps.values())):
        chosen = dict(fixed)
        parts = [op, label]
        for key, (position, value) in zip(sweeps, picks, strict=True):
            parts.append(str(position) if isinstance(value, list | dict) else str(value))
            if key == "case":
                chosen.update(value)
            else:
                chosen[key] = value
        yield _make_case("/".join(parts), op, chosen, stem)


def _make_case(case_id: str, op: str, table: Mapping[str, Any], stem: str) -> Case:
    attrs = {key: value for key, value in table.items() if key not in RESERVED}
    types = {key: value for key, value in attrs.items() if isinstance(value, str)}
    seed_text = f"{op}|{table.get('draw', 0)}"
    skip = dict(table.get("skip", {}))
    if not set(skip) <= set(BACKENDS):
        raise SpecError(f"skip names {sorted(skip)}; the backends are {', '.join(BACKENDS)}")
    return Case(
        id=case_id,
        stem=stem,
        op=op,
        inputs=_inputs(table.get("in", []), types, seed_text),
        attrs=attrs,
        error=table.get("error", ""),
        error_from=_one_of(table, "error_from", ("", "values")),
        compare=_one_of(table, "compare", COMPARISONS),
        unspecified=tuple(table.get("unspecified", ())),
        close=Close(**table["close"]) if "close" in table else None,
        skip=skip,
        differs=table.get("differs", ""),
        expect=tuple(parse_input(value, types, "") for value in table.get("expect", ())),
        program=_program(op, table, types, seed_text),
    )


def _one_of(table: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    """Return the value of a key, by default the first allowed one."""
    value = str(table.get(key, allowed[0]))
    if value not in allowed:
        raise SpecError(f"{key} = {value!r}; use one of {', '.join(map(repr, allowed))}")
    return value


def _inputs(entries: list[Any], types: dict[str, str], seed_text: str) -> tuple[InputTree, ...]:
    trees: list[InputTree] = []
    for position, entry in enumerate(entries):
        if isinstance(entry, list) and all(isinstance(item, str) for item in entry):
            trees.append(
                tuple(
                    parse_input(item, types, f"{seed_text}|{position}.{index}")
                    for index, item in enumerate(entry)
                )
            )
        else:
            trees.append(parse_input(entry, types, f"{seed_text}|{position}"))
    return tuple(trees)


def _program(
    op: str, table: Mapping[str, Any], types: dict[str, str], seed_text: str
) -> Program | None:
    if "nodes" not in table:
        return None
    feed = {
        name: parse_input(value, types, f"{seed_text}|{name}")
        for name, value in table.get("feed", {}).items()
    }
    nodes = tuple(text.replace("= OP(", f"= {op}(") for text in table["nodes"])
    if not any(f"= {op}(" in text for text in (*nodes, *table.get("functions", ()))):
        raise SpecError(f"the program has no node of op {op}")
    return Program(
        nodes=nodes,
        run=tuple(table["run"]),
        feed=feed,
        functions=tuple(table.get("functions", ())),
    )


def _check_unique(cases: Iterable[Case]) -> None:
    seen: dict[str, str] = {}
    for case in cases:
        if case.id in seen:
            raise SpecError(
                f"Two cases have the id {case.id!r}, in {seen[case.id]}.toml and {case.stem}.toml; "
                "give one of the tables a `label`"
            )
        seen[case.id] = case.stem
