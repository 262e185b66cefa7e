#!/usr/bin/env python3
"""Add cases for element types of TensorFlow's CPU kernels that no case covers: *.types.toml.

The new cases are existing case tables of the op with other element types. Cases that TensorFlow
refuses are left out. Needs an environment with `tensorflow-cpu`, NumPy and this checkout:

    python tools/grow_op_cases.py [--file math]

writes the case files; `tools/make_op_cases.py` then stores TensorFlow's results.
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from typing import Any

import _checkout  # noqa: F401 - puts the checkout on the path

from graphmill.dtypes import as_dtype
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case import case_files, load_cases, parse_cases
from graphmill.testing.case_writer import case_text, toml
from graphmill.testing.dtype_coverage import covered_types
from graphmill.testing.oracle.cpu_types import cpu_types

LEFT_OUT = {"variant", "resource"}  # no values can be written for them
HEADER = "# Element types that no other file covers; written by tools/grow_op_cases.py.\n"
SPEC = re.compile(r"^([a-z]\w*)(?=[\[: ]|$)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", action="append", help="family of ops (default: all)")
    parser.add_argument("--from-stdin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.from_stdin:
        return run_from_stdin()
    ops = OpRegistry()
    stems = [path.stem for path in case_files() if not path.stem.endswith(".types")]
    types = covered_types(load_cases(stems=stems), ops)
    tables = read_tables(stems)
    by_family: dict[str, list[str]] = defaultdict(list)
    for op, rows in tables.items():
        for attr, names in cpu_types().get(op, {}).items():
            missing = [n for n in names if n not in types[op][attr] and n not in LEFT_OUT]
            table = missing and first_fit(ops, op, attr, missing, rows)
            if table:
                by_family[ops.get(op).family].append(case_text(op, table))
    for family in sorted(by_family):
        if not options.file or family in options.file:
            write(family, by_family[family])
    return 0


def read_tables(stems: list[str]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in case_files():
        if path.stem in stems:
            for header, rows in tomllib.loads(path.read_text("utf-8")).items():
                for op in header.split():
                    tables[op] += rows
    return tables


def first_fit(
    ops: OpRegistry, op: str, attr: str, names: list[str], tables: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Return a table that covers the types, from the first table that can be converted; or None."""
    for table in tables:
        if {"error", "differs", "compare", "unspecified", "expect"} & table.keys():
            continue
        new_table = with_types(ops, op, attr, names, table)
        if new_table is not None:
            return new_table
    return None


def with_types(
    ops: OpRegistry, op: str, attr: str, names: list[str], table: dict[str, Any]
) -> dict[str, Any] | None:
    new_table = copy.deepcopy(table)
    for key in ("label", "note", "close"):
        new_table.pop(key, None)
    sweeps = new_table.pop("each", {})
    name = attr
    swept = [key for key, values in sweeps.items() if are_types(values)]
    if attr not in swept and len(swept) == 1 and "nodes" in new_table:
        name = swept[0]
    for key, values in sweeps.items():
        if key == "case":
            new_table.update(values[0])
        elif key != name:
            new_table[key] = values[0]
    new_table.pop(name, None)
    if name not in swept and not refer(ops, op, attr, new_table):
        return None
    new_table["each"] = {name: names}
    new_table["label"] = attr
    return new_table


def are_types(values: Any) -> bool:
    return all(isinstance(v, str) and is_type(v) for v in values)


def is_type(name: str) -> bool:
    try:
        as_dtype(name)
    except Exception:  # noqa: BLE001 - every error means that it is not a type
        return False
    return True


def refer(ops: OpRegistry, op: str, attr: str, table: dict[str, Any]) -> bool:
    """Make the inputs of a type attr refer to it; return False if they do not match the op's."""
    if "in" not in table:
        return False
    args = ops.get(op).input_args
    if len(args) != len(table["in"]):
        return False
    done = not any(arg.type_attr == attr for arg in args)
    inputs: list[Any] = []
    for arg, spec in zip(args, table["in"], strict=True):
        has_attr = arg.type_attr == attr
        done = done or has_attr
        if has_attr and arg.number_attr:
            inputs.append([with_type(one, attr) for one in spec])
        else:
            inputs.append(with_type(spec, attr) if has_attr else spec)
    table["in"] = inputs
    return done


def with_type(spec: Any, attr: str) -> str:
    if isinstance(spec, str):
        return SPEC.sub(attr, spec)
    return f"{attr}: {spec!r}"


def write(family: str, tables: list[str]) -> None:
    """Write the cases of a family for which TensorFlow has a result."""
    stem = f"{family}.types"
    readable = [text for text in tables if can_be_read(text, stem)]
    good = with_results("\n\n".join(readable), stem)
    texts = []
    for text in readable:
        names = re.search(r"^each\.(\w+) = (\[.*\])$", text, re.MULTILINE)
        assert names is not None
        cases = parse_cases(text, stem)
        types = [
            name for case, name in zip(cases, json.loads(names[2]), strict=True) if case.id in good
        ]
        if types:
            texts.append(text.replace(names[0], f"each.{names[1]} = {toml(types)}"))
    if not texts:
        return
    path = case_files()[0].parent / f"{stem}.toml"
    path.write_text(HEADER + "\n" + "\n\n".join(grouped(texts)) + "\n", "utf-8")
    print(f"{stem}: {len(texts)} tables; TensorFlow has results for {len(good)} of their cases")


def grouped(texts: list[str]) -> list[str]:
    """Merge the tables of ops with the same cases under one header."""
    groups: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        header, _, body = text.partition("\n")
        groups[body].append(header[2:-2])
    return [
        (f'[["{" ".join(ops)}"]]' if len(ops) > 1 else f"[[{ops[0]}]]") + "\n" + body
        for body, ops in groups.items()
    ]


def can_be_read(text: str, stem: str) -> bool:
    try:
        return bool(list(parse_cases(text, stem)))
    except Exception:  # noqa: BLE001 - an invalid table is left out
        return False


def with_results(text: str, stem: str) -> set[str]:
    """Return the ids of cases for which TensorFlow has a result; a crash counts as a refusal."""
    good: set[str] = set()
    refused: set[str] = set()
    while True:
        child = subprocess.run(
            [sys.executable, __file__, "--from-stdin"],
            input=json.dumps([text, stem, sorted(good | refused)]),
            capture_output=True,
            text=True,
            check=False,
        )
        begun = ""
        for line in child.stdout.splitlines():
            word, _, case_id = line.partition(" ")
            begun = case_id if word == "BEGIN" else ""
            if word in ("GOOD", "REFUSED"):
                (good if word == "GOOD" else refused).add(case_id)
        if child.returncode == 0:
            return good
        if not begun:
            raise SystemExit(child.stderr)
        refused.add(begun)


def run_from_stdin() -> int:
    from graphmill.testing.oracle import tensorflow_oracle

    text, stem, finished = json.loads(sys.stdin.read())
    for case in parse_cases(text, stem):
        if case.id in finished:
            continue
        print("BEGIN", case.id, flush=True)
        try:
            result = tensorflow_oracle.run_case(case)
            word = "REFUSED" if result.error else "GOOD"
        except Exception:  # noqa: BLE001 - an invalid case
            word = "REFUSED"
        print(word, case.id, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
