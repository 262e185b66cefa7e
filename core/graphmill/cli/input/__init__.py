"""Convert command line arguments to arrays for the inputs of a model."""
