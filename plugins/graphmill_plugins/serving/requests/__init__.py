"""What every API does with a request: validate it, queue it, run it."""
