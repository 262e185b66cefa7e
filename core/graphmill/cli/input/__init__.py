"""From the arguments of the command line to arrays for the inputs of a model."""
