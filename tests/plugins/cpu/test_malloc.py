"""Memory freed by a step stays with the process, unless the user disables this."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

STEPS = """
import resource
import graphmill
import numpy as np

graph = graphmill.Graph()
with graph.as_default():
    x = y = graph.placeholder("float32", [500_000], name="x")
    for _ in range(8):
        y = y * 1.5
config = graphmill.ConfigProto()
config.graph_options.optimizer_options.global_jit_level = -1  # no compiler takes memory meanwhile
session = graphmill.Session(graph=graph, config=config)
call = session.make_callable(y, [x])
value = np.zeros(500_000, np.float32)
for _ in range(5):
    call(value)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    call(value)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "GRAPHMILL_DISABLE_PASSES": "constant_folding", **environment},
    )
    return int(done.stdout)


glibc_only = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


@glibc_only
def test_steps_use_the_same_memory_again() -> None:
    pages = 500_000 * 4 // 4096  # of one of the eight arrays of each of the ten steps
    assert faults() < 8 * pages


@glibc_only
def test_the_users_settings_count() -> None:
    assert faults(MALLOC_MMAP_THRESHOLD_="100000") > 10 * 500_000 * 4 // 4096
