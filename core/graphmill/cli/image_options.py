"""Make the options for images from the options of a command."""

from __future__ import annotations

from graphmill.cli.output.visible_text import say
from graphmill.inputs.image_input import ImageOptions
from graphmill.inputs.notes import each_once


def image_options(pixels: str | None) -> ImageOptions:
    """Return the image options of a command, which prints each note once on stderr.

    Args:
        pixels: the value of `--pixels`; None if it is not given.
    """
    show = each_once(lambda note: say(f"graphmill: {note}", err=True))
    return ImageOptions(pixels=pixels or "", on_note=show)
