"""Run a model on many rows: images of a folder, lines of a table, records, texts.

    graphmill.batch.run("model", "pics/*.png", "result.csv", batch_size=32)
    for prediction in graphmill.batch.predict("model", [{"x": 1.0}, {"x": 2.0}]):
        print(prediction.outputs["y"])

`graphmill run MODEL --each FILES --out RESULT` is the same on the command line.
"""

from __future__ import annotations

from graphmill.batch.progress import Progress
from graphmill.batch.run import Prediction, Report, predict, run

__all__ = ["Prediction", "Progress", "Report", "predict", "run"]
