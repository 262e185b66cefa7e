"""Write docs/reference/hooks.md from the docstrings of graphmill.plugin.hookspecs.

python tools/make_hook_reference.py            write it
python tools/make_hook_reference.py --check    fail if it differs from what would be written
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill.plugin import hookspecs, registrars
from graphmill.plugin.markers import HOOK_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "hooks.md"
HEAD = """\
# Hooks

<!-- Written by tools/make_hook_reference.py from core/graphmill/plugin/hookspecs.py; edit that. -->

This page is for plugin authors. It lets you look up what each hook may register or change, when and
how often it is called, and in which thread.
"""
REGISTRARS = {
    name: getattr(registrars, name)
    for name in (
        "OpRegistrar",
        "KernelRegistrar",
        "LoweringRegistrar",
        "GradientRegistrar",
        "Registrar",
        "PassRegistrar",
    )
}
FIELDS = ("When", "How often", "May change", "Threads")


def hooks() -> dict[str, Callable[..., object]]:
    """Return the hooks in the order of their definitions."""
    by_name = {n: f for n, f in vars(hookspecs).items() if n.startswith(HOOK_PREFIX)}
    return dict(sorted(by_name.items(), key=lambda item: inspect.getsourcelines(item[1])[1]))


def example(hook: Callable[..., object]) -> str:
    """Return the example in a hook's docstring; "" if there is none."""
    _, _, rest = inspect.getdoc(hook).partition("Example::\n")  # type: ignore[union-attr]
    return textwrap.dedent(rest.strip("\n"))


def section(name: str, hook: Callable[..., object]) -> str:
    """Return the part of the page about one hook."""
    doc = inspect.getdoc(hook) or ""
    text = doc.partition("Example::\n")[0]
    arguments = ", ".join(
        f"{p.name}: {p.annotation}" for p in inspect.signature(hook).parameters.values()
    )
    parts = [f"## `{name}`", f"```python\n{name}({arguments})\n```", text.splitlines()[0]]
    rows = []
    for field in FIELDS:
        text_of_field = re.search(rf"^{field}: (.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        if text_of_field:
            rows.append(f"- **{field}:** {' '.join(text_of_field[1].split())}")
    parts.append("\n".join(rows))
    parts.append(f"```python\n{example(hook)}\n```")
    return "\n\n".join(parts)


def registrar_section(name: str, registrar: type) -> str:
    """Return the part of the page about one registrar, an argument of registration hooks."""
    parts = [f"### `{name}`", inspect.getdoc(registrar) or ""]
    for method, function in vars(registrar).items():
        if method.startswith("_") or not inspect.isfunction(function):
            continue
        signature = str(inspect.signature(function)).replace("'", "")
        doc = textwrap.indent(inspect.getdoc(function) or "", "    ").strip()
        end = "\n    " if "\n" in doc else ""
        call = f"{method}{signature}".replace("(self, ", "(")
        parts.append(f'```python\n{call}\n    """{doc}{end}"""\n```')
    return "\n\n".join(parts)


def page() -> str:
    """Return the whole page."""
    introduction = (inspect.getdoc(hookspecs) or "").partition("\n")[2]  # without its first line
    all_hooks = hooks()
    contents = "\n".join(
        f"- [`{name}`](#{name}): {summary(hook)}" for name, hook in all_hooks.items()
    )
    sections = "\n\n".join(section(name, hook) for name, hook in all_hooks.items())
    registrar_part = "\n\n".join(registrar_section(*item) for item in REGISTRARS.items())
    return (
        f"{HEAD}{introduction}\n\n{contents}\n\n{sections}\n\n"
        f"## Arguments of registration hooks\n\n{registrar_part}\n"
    )


def summary(hook: Callable[..., object]) -> str:
    """Return the first line of a hook's docstring in the form of a list entry."""
    first = (inspect.getdoc(hook) or "").splitlines()[0]
    return first[0].lower() + first[1:].rstrip(".")


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit status."""
    expected = page()
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != expected:
            print(f"{PAGE} is out of date; run python tools/make_hook_reference.py")
            return 1
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
