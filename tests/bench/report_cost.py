"""Measure the time to write a report on a large graph, and to open its page.

    python tests/bench/report_cost.py --nodes 30000

Times of writing are CPU times of the process, so other work on the machine changes them little; the
page is opened in Chromium, if it is installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.report.chromium import Page, find_chromium
from tests.unit.report.report_graphs import chain

import graphmill
from graphmill import report


def main() -> None:
    """Write a report, and open it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=30_000)
    num_nodes = parser.parse_args().nodes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        config = {"graphmill": {"jit": "off"}}
        with graphmill.Session(graph=chain(num_nodes), config=config) as session:
            began = time.process_time()
            report.write(session, path, fetches="out:0", feed_dict={"x:0": [1.0]}, steps=2)
        seconds = time.process_time() - began
        print(f"two steps, and a report of {num_nodes:,} nodes: {seconds:.1f} s of CPU time")
        chromium = find_chromium()
        if chromium is not None:
            with Page(chromium, Path(folder, "profile"), 1280, 900) as page:
                began = time.perf_counter()
                page.open(path)
                print(f"opened after {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
