"""Functions for the quantized ops; see `graphmill.ops.definition.op_functions`."""

from graphmill.ops.definition.op_functions import family_functions

__getattr__, __dir__ = family_functions(__name__)
