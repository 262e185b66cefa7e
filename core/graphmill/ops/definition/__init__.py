"""Op definitions: inputs, outputs, attrs, traits, the registry, the Python functions."""
