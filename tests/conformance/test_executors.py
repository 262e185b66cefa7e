"""The built-in executors pass the public conformance suite."""

from __future__ import annotations

import pytest

from graphmill.testing.conformance import ExecutorTests

pytestmark = pytest.mark.divided


class TestDefault(ExecutorTests):
    executor_type = "DEFAULT"


class TestInline(ExecutorTests):
    executor_type = "INLINE"


class TestSingleThreaded(ExecutorTests):
    executor_type = "SINGLE_THREADED_EXECUTOR"
    runs_control_flow = False
    runs_transfers = False
