"""Write plugins/graphmill_plugins/kernels/_ops.py: the ops of each kernel module.

python tools/make_kernel_index.py            write it
python tools/make_kernel_index.py --check    fail if it differs from what would be written

With this index, the first use of an op imports only the modules that have its kernels, not its
whole family.
"""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

from graphmill.runtime.kernels.kernel import kernels_of
from graphmill_plugins import kernels

FILE = Path(kernels.__file__).with_name("_ops.py")
WIDTH = 100
HEAD = '''"""The ops that each module has kernels for; made by tools/make_kernel_index.py."""

from __future__ import annotations

OPS: dict[str, str] = {
'''


def modules() -> list[str]:
    """Return the names of all kernel modules, relative to the package."""
    plain = [name for names in kernels.MODULES.values() for name in names]
    jax = [f"jax.{name}" for names in kernels.JAX_MODULES.values() for name in names]
    return sorted({*plain, *jax})


def entry(module: str) -> str:
    """Return the lines of the index for one module."""
    definitions = kernels_of(importlib.import_module(f"{kernels.__name__}.{module}"))
    ops = " ".join(sorted({op for definition in definitions for op in definition.ops}))
    line = f'    "{module}": "{ops}",\n'
    if len(line) <= WIDTH + 1:
        return line
    lines = [ops] if len(ops) <= WIDTH - 10 else textwrap.wrap(ops, WIDTH - 11)
    pieces = [*(f"{line} " for line in lines[:-1]), lines[-1]]
    return f'    "{module}": (\n' + "".join(f'        "{piece}"\n' for piece in pieces) + "    ),\n"


def text() -> str:
    """Return the whole file."""
    return HEAD + "".join(map(entry, modules())) + "}\n"


def main(arguments: list[str]) -> int:
    """Write or check the file; return the exit status."""
    expected = text()
    if "--check" not in arguments:
        FILE.write_text(expected, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != expected:
        print(f"{FILE} is out of date; run python tools/make_kernel_index.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
