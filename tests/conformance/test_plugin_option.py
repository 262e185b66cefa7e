"""`--graphmill-plugin` tests the kernels of an installed plugin without a test class."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.divided

PLUGIN = """
from graphmill.spi import ArgDef, OpDef, dtypes, hookimpl, kernel

x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)

@kernel("Tried>Double", backend="numpy"{declared})
def double(x):
    {body}

@hookimpl
def graphmill_register_ops(ops):
    ops.add(OpDef("Tried>Double", (x,), (y,)))

@hookimpl
def graphmill_register_kernels(kernels):
    kernels.add(double)
"""
CASES = '[["Tried>Double"]]\nin = ["float32[3]: [1, 2, 3]"]\n'


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return a folder with the installed distribution `graphmill-tried` and its plugin `tried`."""
    info = tmp_path / "graphmill_tried-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: graphmill-tried\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[graphmill.plugins]\ntried = graphmill_tried\n")
    write(tmp_path, "return x * 2")
    (tmp_path / "cases.toml").write_text(CASES)
    return tmp_path


def write(folder: Path, body: str, declared: str = "") -> None:
    text = PLUGIN.format(body=body, declared=declared)
    (folder / "graphmill_tried.py").write_text(text)


def tried(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the suite in a subprocess that has the plugin."""
    path = f"import sys; sys.path.insert(0, {str(folder)!r})"
    code = f"{path}; import pytest; sys.exit(pytest.main())"
    command = [sys.executable, "-c", code, "-rA", "--tb=short", "-p", "no:cacheprovider"]
    suite = ["--pyargs", "graphmill.testing.suite::TestPlugin", *options]
    return subprocess.run(
        [*command, *suite], capture_output=True, text=True, timeout=240, cwd=folder
    )


def test_sound_distribution_passes(installed: Path) -> None:
    cases = str(installed / "cases.toml")
    done = tried(installed, "--graphmill-plugin", "graphmill-tried", "--graphmill-cases", cases)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 6, (
        done.stdout
    )  # three tiers, two lists of ops, the broker; the gradient is skipped


def test_faulty_plugin_fails_and_is_named(installed: Path) -> None:
    write(installed, "x *= 2; return x")
    cases = str(installed / "cases.toml")
    done = tried(installed, "--graphmill-plugin", "tried", "--graphmill-cases", cases)
    assert done.returncode == 1, done.stdout
    for text in ("writes to one of its inputs", "Tried>Double", "graphmill-tried"):
        assert text in done.stdout


def test_op_without_a_case_fails(installed: Path) -> None:
    done = tried(installed, "--graphmill-plugin", "tried")
    assert done.returncode == 1, done.stdout
    assert "has kernels for ops without a case: Tried>Double" in done.stdout


def test_unknown_plugin_is_refused(installed: Path) -> None:
    done = tried(installed, "--graphmill-plugin", "nobody")
    assert done.returncode != 0
    assert "no kernel belongs to a plugin 'nobody'" in done.stdout + done.stderr
    assert "tried" in done.stdout + done.stderr
