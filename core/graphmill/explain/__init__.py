"""Why a step runs as it does: where each node went, which kernel it got, what was passed over.

from graphmill.explain.step import explain

with graphmill.Session(graph="model.pb") as session:
    for record in explain(session, fetches=["y:0"], feeds=["x:0"]):
        print(record)
"""
