"""Generate random graphs, programs and op instances from a seed.

dataflow_graphs        small graphs without loops, with shared subexpressions
control_flow_graphs    loops and conditionals in TensorFlow's primitives
control_flow_programs  loops, conditionals and side effects, nested in each other
session_programs       graphs with resources, and calls of `Session` on them
variable_graphs        reads, assignments and training ops
op_instances           instances of ops: other types, shapes, values and attrs
op_values              the shapes, values and attrs of op instances
"""
