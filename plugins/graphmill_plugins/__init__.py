"""Built-in plugins of graphmill; they come in by the same entry points as anybody else's."""
