"""graphmill: run TensorFlow graphs without TensorFlow.

    import graphmill
    with graphmill.Session(graph="model.pb") as session:
        y = session.run("y:0", {"x:0": x})

Every name below is imported on first use, so that `import graphmill` stays light.
"""

from __future__ import annotations
