"""Shape functions of TensorFlow's ops: a module for each family, each with a table `SHAPES`.

They are imported when a shape of an op of the family is first asked for. Outputs of ops that are
not in a table have an unknown shape.
"""
