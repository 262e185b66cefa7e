"""SavedModels: load and run them, and the options of commands that do.

    from graphmill.spi.models import load

For plugins that serve or convert models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphmill.cli.options import allow_option as allow_option
    from graphmill.cli.options import tags_option as tags_option
    from graphmill.cli.options import trust_option as trust_option
    from graphmill.graph.shapes.row_independence import why_rows_mix as why_rows_mix
    from graphmill.saved.saved_model import SavedModel as SavedModel
    from graphmill.saved.saved_model import load as load
    from graphmill.saved.signature import Port as Port
    from graphmill.saved.signature import Signatures as Signatures
    from graphmill.saved.signature import TensorSpec as TensorSpec
else:
    from graphmill.spi._lazy import lazy_names

    __all__, __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "graphmill.cli.options": "allow_option tags_option trust_option",
            "graphmill.graph.shapes.row_independence": "why_rows_mix",
            "graphmill.saved.saved_model": "SavedModel load",
            "graphmill.saved.signature": "Port Signatures TensorSpec",
        },
    )
