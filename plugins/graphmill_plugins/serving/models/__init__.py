"""The served models: their configuration, versions, signatures and warm-up."""
