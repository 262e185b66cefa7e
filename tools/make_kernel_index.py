"""Write the indices of built-in kernels and lowerings: the ops that each module declares.

python tools/make_kernel_index.py            write both
python tools/make_kernel_index.py --check    fail if one differs from what would be written

The files are `_ops.py` in the packages `kernels` and `lowerings` of plugins/graphmill_plugins. With
them, the first use of an op imports only the modules that have its kernels, not its whole family,
and compilers import only the modules that have lowerings or checks of an op.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill.runtime.kernels.kernel import kernels_of
from graphmill.runtime.kernels.lowering import lowerings_of
from graphmill_plugins import kernels, lowerings

if TYPE_CHECKING:
    from types import ModuleType

WIDTH = 100
HEAD = '''"""The ops that each module has {what} for; made by tools/make_kernel_index.py."""

from __future__ import annotations

OPS: dict[str, str] = {{
'''


def kernel_ops() -> dict[str, set[str]]:
    """Return the ops of each kernel module; its name is relative to the package."""
    plain = [name for names in kernels.MODULES.values() for name in names]
    jax = [f"jax.{name}" for names in kernels.JAX_MODULES.values() for name in names]
    return {
        name: {op for one in kernels_of(imported(kernels, name)) for op in one.ops}
        for name in sorted({*plain, *jax})
    }


def lowering_ops() -> dict[str, set[str]]:
    """Return the ops of each module of the package of lowerings, without those that have none."""
    declared = {
        name: {op for one in lowerings_of(imported(lowerings, name)) for op in one.ops}
        for name in sorted(module.name for module in pkgutil.iter_modules(lowerings.__path__))
    }
    return {name: ops for name, ops in declared.items() if ops}


def imported(package: ModuleType, name: str) -> ModuleType:
    """Return a module of a package."""
    return importlib.import_module(f"{package.__name__}.{name}")


def entry(module: str, names: set[str]) -> str:
    """Return the lines of an index for one module."""
    ops = " ".join(sorted(names))
    line = f'    "{module}": "{ops}",\n'
    if len(line) <= WIDTH + 1:
        return line
    lines = [ops] if len(ops) <= WIDTH - 10 else textwrap.wrap(ops, WIDTH - 11)
    pieces = [*(f"{line} " for line in lines[:-1]), lines[-1]]
    return f'    "{module}": (\n' + "".join(f'        "{piece}"\n' for piece in pieces) + "    ),\n"


def text(what: str, index: dict[str, set[str]]) -> str:
    """Return a whole file."""
    return HEAD.format(what=what) + "".join(entry(*item) for item in index.items()) + "}\n"


def files() -> dict[Path, str]:
    """Return the text of each generated file."""
    return {
        Path(package.__path__[0], "_ops.py"): text(what, index)
        for package, what, index in (
            (kernels, "kernels", kernel_ops()),
            (lowerings, "lowerings or checks", lowering_ops()),
        )
    }


def main(arguments: list[str]) -> int:
    """Write or check the files; return the exit status."""
    stale = False
    for path, expected in files().items():
        if "--check" not in arguments:
            path.write_text(expected, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != expected:
            print(f"{path} is out of date; run python tools/make_kernel_index.py")
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
