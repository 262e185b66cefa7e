"""The line-oriented debugger of `graphmill debug`."""
