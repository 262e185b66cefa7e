#!/usr/bin/env python3
"""Write the population of benchmark graphs; needs a Python with TensorFlow and tf-keras.

python tests/bench/population --out MODELS                 # all families
python tests/bench/population --out MODELS --only signal   # some families or cases
python tests/bench MODELS --tensorflow PYTHON --json population.json
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tensorflow as tf

from population.registry import CASES
from population.writer import write

FAMILIES = sorted(
    path.stem for path in Path(__file__).with_name("families").glob("*.py") if path.stem[0] != "_"
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="population",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="the folder of the cases")
    parser.add_argument("--only", default="", help="families or cases, separated by commas")
    parser.add_argument("--list", action="store_true", help="print the cases and their families")
    options = parser.parse_args()
    if not (options.out or options.list):
        parser.error("--out is needed")
    tf.compat.v1.disable_eager_execution()
    for family in FAMILIES:
        importlib.import_module(f"population.families.{family}")
    names = set(filter(None, options.only.split(",")))
    chosen = [c for c in CASES.values() if not names or {c.name, c.family} & names]
    failed = []
    for case in chosen:
        if options.list:
            print(f"{case.family:<16} {case.name}")
            continue
        try:
            write(case, options.out)
        except Exception:  # noqa: BLE001 - one that cannot be built is reported; the others are
            traceback.print_exc()
            failed.append(case.name)
        else:
            print(f"wrote {case.name}", file=sys.stderr, flush=True)
    print(f"{len(chosen) - len(failed)} cases; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
