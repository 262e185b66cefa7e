"""Gradients of elementwise functions, products, reductions and segment reductions."""
