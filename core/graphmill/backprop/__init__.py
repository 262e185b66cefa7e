"""Gradients of graphs: what `graphmill.gradients` is made of.

`gradients.py` is the door; `walk.py` goes back through nodes; `loops.py` through v1 loops,
`calls.py` through functions. The gradients of single ops are registered by plugins
(`graphmill_register_gradients`), the built-in ones too.
"""
