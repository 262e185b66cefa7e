"""Reports on steps of a model, for `graphmill explain` and `graphmill report`."""
