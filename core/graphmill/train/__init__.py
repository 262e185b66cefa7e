"""Train: optimizers, variables and checkpoints, as builders of graphs."""
