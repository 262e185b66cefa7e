"""Functions for the RISC ops; see `graphmill.ops.op_functions`."""

from graphmill.ops.op_functions import family_functions

__getattr__, __dir__ = family_functions(__name__)
