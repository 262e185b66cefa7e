"""Compute the expected results for comparison with graphmill's.

tensorflow_oracle    TensorFlow itself
reference_evaluator  a naive graph evaluator, independent of the executors
reference_frames     its evaluation of loops and conditionals
gradient_results     gradients of op cases, by TensorFlow and by graphmill
cpu_types            the element types of TensorFlow's CPU kernels
"""
