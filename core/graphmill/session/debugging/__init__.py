"""Steps that a debugger drives or watches."""
