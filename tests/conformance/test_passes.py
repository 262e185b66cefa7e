"""The built-in passes pass the public conformance suite."""

from __future__ import annotations

import pytest

from graphmill.testing.conformance import PassTests

pytestmark = pytest.mark.divided


class TestConstantFolding(PassTests):
    pass_name = "constant_folding"
    seeds = 10


class TestCommonSubexpressions(PassTests):
    pass_name = "common_subexpressions"
    seeds = 10


class TestIdentityPruning(PassTests):
    pass_name = "identity_pruning"
    seeds = 10


class TestFunctionInlining(PassTests):
    pass_name = "function_inlining"
    seeds = 10


class TestLowerFunctionalOps(PassTests):
    pass_name = "lower_functional_ops"
    seeds = 10


class TestReadBeforeWrite(PassTests):
    pass_name = "read_before_write"
    seeds = 10
