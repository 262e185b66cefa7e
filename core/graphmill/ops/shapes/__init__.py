"""Shape functions of TensorFlow's ops: a module for each family, each with a table `SHAPES`.

Each module is imported on the first shape inference for an op of its family. Outputs of ops that
are not in a table have an unknown shape.
"""
