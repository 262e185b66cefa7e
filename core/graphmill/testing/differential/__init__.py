"""Differential tests: compare two ways to run the same graph, or graphmill with TensorFlow.

executors       an executor and the reference evaluator
compiled_graphs compiled and interpreted steps of random graphs
compiled_ops    compiled and interpreted ops, on values that stored cases seldom have
op_instances    random op instances in TensorFlow and graphmill
gradients       gradients in TensorFlow and graphmill
pass_bisection  find the graph pass that changes a result
"""
