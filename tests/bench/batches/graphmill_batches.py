"""Run a model on a folder of PNG files with graphmill; print the times in seconds.

python graphmill_batches.py MODEL FOLDER OUT BATCH
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

BEGIN = time.time()

import graphmill  # noqa: E402


def main() -> None:
    model, folder, out, batch = sys.argv[1:]
    started, before = time.perf_counter(), os.times()
    graphmill.batch.run(
        model, f"{folder}/*.png", out, batch_size=int(batch), overwrite=True, pixels="0..1"
    )
    wall, after = time.perf_counter() - started, os.times()
    processor = sum(after[:4]) - sum(before[:4])
    assert Path(out).exists()
    print(json.dumps({"wall": wall, "processor": processor, "process": time.time() - BEGIN}))


if __name__ == "__main__":
    main()
