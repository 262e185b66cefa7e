"""Gradients of graphs: the implementation of `graphmill.gradients`.

`gradients.py` has the entry point, `backward_pass.py` propagates gradients through nodes,
`loops.py` through v1 loops, `calls.py` through function calls. Plugins, including the built-in
ones, register the gradients of single ops (`graphmill_register_gradients`).
"""
