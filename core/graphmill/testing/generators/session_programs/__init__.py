"""Generate random programs of clients: a graph with resources, and calls of `Session` on it.

program       what a program is: nodes, and the calls of a client
resource      a resource in a graph, its steps, and the model that knows which of them wait
queues        queues and barriers
staging       staging areas
accumulators  dense and sparse accumulators
tables        lookup tables
state         variables, random numbers, session handles
datasets      iterators of datasets
dataflow      nodes without state, tensor arrays and stacks, for feeds, callables and partial runs
generate      draws a program
simulation    runs the models over the calls of a program
shrink        makes a failing program small

`graphmill.testing.runners.session_programs` executes them.
"""
