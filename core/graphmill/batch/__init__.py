"""Run a model on many rows: images of a folder, lines of a table, records, texts.

    np.savez("rows.npz", x=[1.0, 2.0, 3.0])
    report = graphmill.batch.run("model.pb", "rows.npz", "result.csv", batch_size=32)
    print(report.rows)  # 3
    for prediction in graphmill.batch.predict("model.pb", [{"x": 1.5}]):
        print(prediction.outputs["y:0"])  # 3.0

`graphmill run MODEL --each FILES --out RESULT` is the same on the command line.
"""

from __future__ import annotations

from graphmill.batch.progress import Progress
from graphmill.batch.run import Prediction, Report, predict, run

__all__ = ["Prediction", "Progress", "Report", "predict", "run"]
