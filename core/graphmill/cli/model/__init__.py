"""Load and summarize the model that a command works on."""
