"""Install graphmill-lite in a fresh environment, run a model, and test its features without JAX.

    python tools/try_lite.py                     build, install, run, test
    python tools/try_lite.py --python PATH       with another interpreter

CI runs it once (tools/run_ci.py). The last line is pytest's summary.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import make_lite
import run_readme
from pythons import probe

TESTS = (
    *("tests/unit/test_distribution.py", "tests/unit/saved"),
    *("tests/unit/session", "tests/unit/cli", "tests/unit/train", "tests/plugins/default_executor"),
    *("tests/plugins/kernels/math", "tests/plugins/kernels/nn", "tests/plugins/kernels/array"),
    *("tests/plugins/kernels/string", "tests/plugins/test_optional.py", "tests/integration/steps"),
)
"""Files and folders whose tests pass without JAX, apart from those marked `jax`."""
TEST_PACKAGES = ("pytest>=8.2", "hypothesis>=6.100", "pyyaml>=6.0")
CHECKS = """
import importlib.util, pathlib, subprocess, sys
from importlib import metadata
assert metadata.version("graphmill-lite"), "graphmill-lite is not installed"
for name in ("jax", "jaxlib", "scipy"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed"
import numpy as np, graphmill
folder = pathlib.Path("examples/digits")
model = graphmill.saved_model.load(folder / "saved_model_tf2").signatures["serving_default"]
with np.load(folder / "heldout.npz") as digits:
    images, labels = digits["image"] / np.float32(255), digits["label"]
for _ in range(20):  # a full installation would compile it meanwhile
    accuracy = (np.asarray(model(image=images)["classes"]) == labels).mean()
assert accuracy > 0.99, accuracy
files = [file for file in pathlib.Path(sys.prefix).rglob("*") if file.is_file()]
sizes = [file.stat().st_size for file in files if "pip" not in file.parts]
print(f"(graphmill-lite without pip: {sum(sizes) / 1e6:.0f} MB; accuracy {accuracy:.4f})")
"""


def main() -> int:
    """Try the small installation; return the exit code of the first part that fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    python = probe(parser.parse_args().python)
    if python is None:
        parser.error("the interpreter cannot make an environment")
    with tempfile.TemporaryDirectory(prefix="graphmill-lite-") as folder:
        return _try(Path(folder), python)


def _try(scratch: Path, python: run_readme.Python) -> int:
    tree, home = scratch / "graphmill-lite", scratch / "home"
    home.mkdir()
    run_readme.copy_tree(tree)
    make_lite.convert(tree)
    environment = run_readme.with_python(run_readme.clean_environment(home), scratch, python)
    bin_ = tree / ".venv" / "bin"
    packages = " ".join(f"'{name}'" for name in TEST_PACKAGES)
    (scratch / "checks.py").write_text(CHECKS)
    for line in (
        f"python3 -m venv .venv && {bin_}/pip install -q '.[image]'",
        f"{bin_}/python {scratch}/checks.py",
        f"{bin_}/graphmill run examples/digits/saved_model_tf2 image=@examples/digits/seven.png",
        f"{bin_}/graphmill doctor",
        f"{bin_}/pip install -q {packages}",
        f"{bin_}/pytest -q -p no:cacheprovider -m 'not oracle and not ray and not jax' "
        + " ".join(TESTS),
    ):
        print(f"$ {line}", flush=True)
        code = subprocess.run(["/bin/sh", "-c", line], cwd=tree, env=environment, check=False)
        if code.returncode:
            return code.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
