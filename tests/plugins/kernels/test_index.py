"""The indices of kernels and lowerings are up to date; the first one avoids imports."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

USE = """
import sys
import graphmill

host = graphmill.default_host()
op_def = host.ops.get("Conv2D")
assert host.kernels.try_find(op_def, {"T": graphmill.float32}, "CPU", ("numpy",))
print(*(name for name in sys.modules if name.startswith("graphmill_plugins.kernels.nn.")))
"""


def test_the_indices_are_up_to_date() -> None:
    path = Path(__file__).parents[3] / "tools" / "make_kernel_index.py"
    spec = importlib.util.spec_from_file_location("make_kernel_index", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.main(["--check"]) == 0, "run python tools/make_kernel_index.py"


def test_an_op_imports_the_modules_that_have_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, check=True, timeout=60
    )
    modules = {name.removeprefix("graphmill_plugins.kernels.nn.") for name in done.stdout.split()}
    assert "conv.kernels" in modules
    assert modules.isdisjoint({"activation_grad", "ctc.loss", "norm.kernels"})
