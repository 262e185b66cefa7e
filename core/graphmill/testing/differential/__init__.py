"""Differential tests: compare two ways of running a graph, or graphmill with TensorFlow.

executors       an executor and the reference evaluator
compiled_graphs compiled and interpreted steps of random graphs
compiled_ops    compiled and interpreted ops, on special values
op_instances    random op instances in TensorFlow and graphmill
gradients       gradients in TensorFlow and graphmill
pass_bisection  find the graph pass that changes a result
"""
