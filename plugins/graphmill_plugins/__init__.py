"""Built-in plugins of graphmill; they are found by the same entry points as third-party ones."""
