"""Convert files, literals and images to arrays for the inputs of a model."""
