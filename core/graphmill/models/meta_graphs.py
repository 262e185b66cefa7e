"""Choose the MetaGraphs of a model file by their tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import NotFoundError

if TYPE_CHECKING:
    from graphmill.graph.formats.model_file import ModelFile


def chosen_meta_graphs(opened: ModelFile, tags: str | None) -> list[int]:
    """Return the indices of the MetaGraphs with these tags; None chooses all.

    Args:
        opened: a file with MetaGraphs.
        tags: tags, separated by commas.

    Raises:
        NotFoundError: there is none; the message lists the tags that there are.
    """
    requested = None if tags is None else frozenset(filter(None, tags.split(",")))
    tag_sets = opened.tag_sets()
    chosen = [index for index, tag_set in enumerate(tag_sets) if requested in (None, tag_set)]
    if not chosen:
        present = "; ".join(",".join(sorted(tag_set)) or "(no tags)" for tag_set in tag_sets)
        raise NotFoundError(f"{opened.path} has no MetaGraph with tags {tags!r}; it has {present}")
    return chosen
