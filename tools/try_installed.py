"""Run the example model on each installed device and in each installed executor.

python tools/try_installed.py        with the interpreter of the environment to test
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import graphmill

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "digits"
MODEL = (str(EXAMPLES / "saved_model_tf2"), f"image=@{EXAMPLES / 'seven.png'}")
NEEDS = {"GPU": "a GPU", "TORCH": "PyTorch"}


def main() -> int:
    """Test all devices and executors; return the number of failures."""
    host = graphmill.default_host()
    options = [("--device", name) for name in sorted(host.devices.keys())]
    options += [("--executor", name) for name in sorted(filter(None, host.executors.keys()))]
    failed = 0
    for option, name in options:
        registry = host.devices if option == "--device" else host.executors
        outcome = answer(option, name)
        failed += not outcome and not is_lacking(name)
        result = outcome or (f"needs {NEEDS[name]}" if is_lacking(name) else "FAILED")
        print(f"{option[2:]:9} {name:25} {registry.provenance(name).distribution:24} {result}")
    return failed


def answer(option: str, name: str) -> str:
    """Return a description of success; "" if the model failed, is wrong, or ran elsewhere."""
    result = json_of("run", *MODEL, option, name)
    if result is None or result["outputs"]["classes"]["value"] != [7]:
        return ""
    if option == "--executor":
        return "correct"
    nodes = json_of("explain", MODEL[0], option, name)["nodes"]
    placed = sum(f"device:{name}:" in node["device"] for node in nodes)
    return f"correct, {placed} of {len(nodes)} nodes on the device" if placed else ""


def json_of(command: str, *arguments: str) -> Any:
    """Return the JSON output of a `graphmill` command; None if it fails."""
    line = [sys.executable, "-m", "graphmill", command, *arguments, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return None if done.returncode else json.loads(done.stdout)


def is_lacking(name: str) -> bool:
    """Return whether this machine lacks the hardware or package that a device needs."""
    if name == "TORCH":
        return find_spec("torch") is None
    return name == "GPU"


if __name__ == "__main__":
    raise SystemExit(main())
