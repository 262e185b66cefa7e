"""Update `core/graphmill/ops/definition/op_defs.jsonl` from an installed TensorFlow.

    python tools/make_op_defs.py            # rewrite the file
    python tools/make_op_defs.py --check    # list the differences; exit status 1 if there are any
    python tools/make_op_defs.py --family NewOp=math --family OtherNewOp=nn

Needs TensorFlow in the Python that runs it. Ops that the installed TensorFlow does not have (those
of 1.15, marked `src`) are kept. New ops need a family. Descriptions are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import _checkout

from graphmill import proto
from graphmill.ops.definition.op_def import OpDef
from graphmill.ops.definition.op_def_json import op_def_from_json, op_def_to_json

PATH = _checkout.ROOT / "core" / "graphmill" / "ops" / "definition" / "op_defs.jsonl"


def main() -> int:
    """Rewrite or check the file; return the exit status."""
    parser = argparse.ArgumentParser(description="Take op definitions from TensorFlow.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--family", action="append", default=[], metavar="OP=FAMILY")
    options = parser.parse_args()
    old = {json.loads(line)["name"]: line for line in PATH.read_text("utf-8").splitlines()}
    families = dict(item.split("=", 1) for item in options.family)
    new, problems = updated(old, registered_ops(), families)
    if options.check:
        problems += [f"{name}: differs" for name in new if new[name] != old.get(name)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems and not options.check:
        PATH.write_text("".join(f"{new[name]}\n" for name in sorted(new)), encoding="utf-8")
    return 1 if problems else 0


def registered_ops() -> dict[str, Any]:
    """Return TensorFlow's registered op definitions as graphmill messages, without descriptions."""
    import tensorflow as tf  # noqa: F401 - loads the library, which registers the ops
    from tensorflow.python.client import pywrap_tf_session as c_api

    buffer = c_api.TF_GetAllOpList()
    by_name = {}
    for op in proto.OpList.FromString(c_api.TF_GetBuffer(buffer)).op:
        for part in (*op.input_arg, *op.output_arg, *op.attr):
            part.ClearField("description")
        for arg in (*op.input_arg, *op.output_arg):
            arg.ClearField("experimental_full_type")
            arg.ClearField("handle_data")
        op.summary = op.description = ""
        if op.HasField("deprecation"):
            op.deprecation.explanation = ""
        by_name[op.name] = op
    return by_name


def updated(
    old: dict[str, str], registered: dict[str, Any], families: dict[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the new lines by op, and a list of problems."""
    lines, problems = {}, []
    for name, line in old.items():
        if name not in registered:
            lines[name] = line
            if "src" not in json.loads(line):
                problems.append(f"{name}: not in this TensorFlow, and not marked with 'src'")
    for name, message in registered.items():
        row = json.loads(old.get(name, "{}"))
        family = families.get(name, row.get("family"))
        if family is None:
            problems.append(f"{name}: new; pass --family {name}=FAMILY")
            continue
        op_def = OpDef.from_proto(message, family)
        if name in old and op_def_from_json(old[name]) == op_def:
            lines[name] = old[name]
        else:
            notes = {"test": True} if row.get("test") else {}
            lines[name] = op_def_to_json(op_def, **notes)
    return lines, problems


if __name__ == "__main__":
    sys.exit(main())
