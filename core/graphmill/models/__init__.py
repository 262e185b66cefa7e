"""Load and summarize a model of any format: a SavedModel, a MetaGraph or a graph."""
