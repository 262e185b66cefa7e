"""Op definitions: what an op takes and gives, its traits, its registry, its Python function."""
