"""`graphmill new-plugin`: create the project of a new plugin."""

from __future__ import annotations

from pathlib import Path

import click

from graphmill.cli.diagnostics.installation import version_of
from graphmill.cli.options import Settings, common_options, pass_settings
from graphmill.cli.output.formatting import emit
from graphmill.templates.render import KINDS, write_plugin


@click.command("new-plugin")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--folder", default=".", show_default=True, help="Where to create the project.")
@common_options
@pass_settings
def new_plugin(settings: Settings, *, kind: str, name: str, folder: str) -> None:
    """Create the project graphmill-NAME: a plugin of KIND, its tests and its README.

    For example: graphmill new-plugin device npu
    """
    files = [str(file) for file in write_plugin(kind, name, Path(folder))]
    project = str(Path(folder) / f"graphmill-{name}")
    lines = ["\n".join(files), f"next:\n  pip install -e '{project}[test]'\n  pytest {project}"]
    installed = version_of(f"graphmill-{name}")
    if installed is not None:
        lines.append(
            f"note: graphmill-{name} {installed} is installed; this project would replace it"
        )
    data = {"project": project, "files": files, "replaces": installed}
    emit(data, lines, as_json=settings.as_json)
