"""Each conformance suite catches ten seeded faults in broken devices, executors and others.

The broken copies are in `broken/`; an unbroken one of each kind passes. The tests that must catch a
fault are named, so that a suite that fails for another reason does not count.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from graphmill.testing.conformance import TierTests

pytestmark = pytest.mark.divided

HERE = Path(__file__).parent

DEVICE_FAULTS = {
    "SharesMemory": "test_device_memory_is_separate",
    "LosesPrecision": "test_values_survive_the_round_trip",
    "IgnoresStrides": "test_values_survive_the_round_trip",
    "ReturnsHandles": "test_values_survive_the_round_trip",
    "ReusesBuffer": "test_fetched_result_is_not_overwritten",
    "HasNoNamespace": "test_each_backend_has_a_namespace",
    "RaisesInSync": "test_sync_ends",
    "ClosesOnce": "test_close_may_be_called_twice",
    "ReusesIncarnation": "test_each_start_is_another_incarnation",
    "RefusesScalars": "test_scalars_are_accepted",
    "LostAfterError": "test_an_error_names_node_and_device",
}
EXECUTOR_FAULTS = {
    "NeverDone": "test_control_edges_order_effects",
    "NeverDoneAfterCancellation": "test_a_deadline_ends_a_step",
    "DoneTwice": "test_control_edges_order_effects",
    "SwallowsErrors": "test_first_error_names_the_node",
    "LosesErrorLocation": "test_first_error_names_the_node",
    "InAnotherThread": "test_control_edges_order_effects",
    "RunsTwice": "test_every_node_runs_once",
    "MixesInputs": "test_iterations_may_overlap",
    "ForgetsIterations": "test_iterations_may_overlap",
    "FailsSometimes": "test_iterations_may_overlap",
    "IgnoresCancellation": "test_a_deadline_ends_a_step",
}


KERNEL_FAULTS = {
    "WritesInputs": "test_op_matches_tensorflow[Neg",
    "RaisesWrongClass": "test_op_matches_tensorflow[TanhGrad",
    "HidesErrors": "test_op_matches_tensorflow[RsqrtGrad",
    "Rounds": "test_op_matches_tensorflow[Expm1",
    "ReturnsWrongDtype": "test_op_matches_tensorflow[Rint",
    "ReturnsWrongShape": "test_op_matches_tensorflow[Acosh",
    "LosesNans": "test_op_matches_tensorflow[Maximum",
    "DoesNotBroadcast": "test_op_matches_tensorflow[Sub",
    "ComputesFirstElementOnly": "test_op_matches_tensorflow[Erfinv",
    "RejectsScalars": "test_op_matches_tensorflow[Sin",
    "RejectsEmptyInputs": "test_op_matches_tensorflow[Sign",
    "SwapsOperands": "test_op_matches_tensorflow[RealDiv",
}
ALLOCATOR_FAULTS = {
    "IgnoresFrees": "test_statistics_count_allocations",
    "IgnoresLimit": "test_exceeding_the_limit_is_resource_exhausted",
    "LimitTooLow": "test_exceeding_the_limit_is_resource_exhausted",
    "OmitsSizesInError": "test_exceeding_the_limit_is_resource_exhausted",
    "FreesTwice": "test_double_free_is_refused",
    "FreesForeignMemory": "test_double_free_is_refused",
    "AllowsNegativeSizes": "test_zero_bytes_are_accepted_and_negative_sizes_refused",
    "RejectsEmptyAllocations": "test_zero_bytes_are_accepted_and_negative_sizes_refused",
    "IgnoresAlignment": "test_pieces_do_not_overlap",
    "ReturnsOverlappingMemory": "test_pieces_do_not_overlap",
    "LeaksRejectedAllocations": "test_statistics_hold_after_any_order_of_calls",
}
PASS_FAULTS = {
    "SwapsInputs": "test_random_programs_mean_the_same",
    "ChangesOps": "test_random_programs_mean_the_same",
    "RemovesNeededNodes": "test_random_graphs_mean_the_same",
    "ChangesConstants": "test_random_graphs_mean_the_same",
    "AddsLoopIteration": "test_random_programs_mean_the_same",
    "MergesEffects": "test_effects_are_neither_lost_nor_doubled",
    "DuplicatesEffects": "test_effects_are_neither_lost_nor_doubled",
    "RemovesEffects": "test_effects_are_neither_lost_nor_doubled",
    "RunsUnneededNodes": "test_unneeded_nodes_do_not_run",
    "IgnoresFeeds": "test_feeds_of_inner_tensors_count",
    "Raises": "test_unneeded_nodes_do_not_run",
}
RENDEZVOUS_FAULTS = {
    "LosesDeadness": "test_deadness_crosses",
    "ConfusesIterations": "test_keys_are_distinct",
    "AcceptsTwoValues": "test_a_second_send_is_refused",
    "KeepsSecondValue": "test_a_second_send_is_refused",
    "AcceptsTwoReceivers": "test_a_second_receiver_is_refused",
    "AbortsWithoutNotifying": "test_abort_ends_all_receives",
    "OmitsDerivedMark": "test_abort_ends_all_receives",
    "KeepsLastAbort": "test_abort_ends_all_receives",
    "IgnoresCancellation": "test_cancellation_ends_a_wait",
    "CallsTwice": "test_cancellation_ends_a_wait",
    "IgnoresEarlierCancellation": "test_a_wait_after_cancellation_ends_at_once",
    "LosesOneOfFifty": "test_threads_receive_every_value",
}
TIER_FAULTS = {
    "IgnoresPriority": "test_the_kernel_of_highest_priority_wins",
    "AnotherKernelWins": "test_a_kernel_with_a_compiled_form_wins_in_both",
    "IgnoresPriorityOfGradients": "test_the_kernel_of_a_gradient_wins",
    "ReturnsPreviousValue": "test_nodes_may_wait_for_each_other",
    "RunsEffectsTwice": "test_a_node_with_effects_runs_once_where_it_stands",
    "RunsEffectsOnce": "test_a_node_with_effects_runs_once_where_it_stands",
    "DropsEffects": "test_a_node_with_effects_runs_once_where_it_stands",
    "UpdatesTwice": "test_an_optimizer_that_may_be_traced_is_compiled",
    "NothingIsCompiled": "test_an_optimizer_that_may_be_traced_is_compiled",
    "DrawsTwice": "test_random_op_continues_its_sequence",
    "DrawsOnce": "test_random_op_continues_its_sequence",
    "HidesErrors": "test_a_checking_kernel_refuses_the_same_values",
    "RaisesWrongClass": "test_a_checking_kernel_refuses_the_same_values",
    "RaisesWrongMessage": "test_a_checking_kernel_refuses_the_same_values",
    "ConvertsOutputs": "test_a_wrong_output_is_an_error_that_names_its_node",
    "AcceptsNonTensors": "test_a_wrong_output_is_an_error_that_names_its_node",
    "CompilerIgnoresChecks": "test_a_checking_kernel_refuses_the_same_values",
    "CompilerIgnoresEffects": "test_a_node_with_effects_runs_once_where_it_stands",
    "CompilerForgetsState": "test_random_op_continues_its_sequence",
    "CompilerDropsUpdates": "test_an_optimizer_that_may_be_traced_is_compiled",
    "CodeChecksNoOutputs": "test_a_wrong_output_is_an_error_that_names_its_node",
}
FAULTS = {
    "device": DEVICE_FAULTS,
    "executor": EXECUTOR_FAULTS,
    "kernels": KERNEL_FAULTS,
    "allocator": ALLOCATOR_FAULTS,
    "pass": PASS_FAULTS,
    "rendezvous": RENDEZVOUS_FAULTS,
    "tiers": TIER_FAULTS,
}


@functools.cache
def report_of(kind: str) -> str:
    """Run the broken copies of a kind and correct ones; return pytest's outcome of each test."""
    tests = {
        name: test.replace("test_op_matches_tensorflow[", "test_op_matches_tensorflow and ")
        for name, test in FAULTS[kind].items()
    }
    selection = [f"(Test{name} and {test})" for name, test in tests.items()]
    sound = {"test_op_matches_tensorflow and Ceil"} if kind == "kernels" else set(tests.values())
    selection += [f"(TestSound and {test})" for test in sound]
    options = ["-q", "-p", "no:cacheprovider", "-rA", "--tb=no", "-W", "ignore"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--import-mode=importlib",
         str(HERE / "broken" / f"broken_{kind}.py"), "-k", " or ".join(selection),
         "--rootdir", str(HERE), "-c", "/dev/null"],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return done.stdout


def is_detected(test: str, report: str) -> bool:
    lines = [line for line in report.splitlines() if test in line]
    return any(line.startswith(("FAILED ", "ERROR ")) for line in lines)


def marked(kind: str, *values: str) -> object:
    """Return test parameters, marked if they need a compiler."""
    return pytest.param(kind, *values, marks=[pytest.mark.jax] if kind == "tiers" else [])


@pytest.mark.parametrize(
    ("kind", "fault"), [marked(kind, fault) for kind, faults in FAULTS.items() for fault in faults]
)
def test_a_fault_is_detected(kind: str, fault: str) -> None:
    report = report_of(kind)
    assert is_detected(f"::Test{fault}::{FAULTS[kind][fault]}", report), report[-3000:]


@pytest.mark.parametrize("kind", list(map(marked, FAULTS)))
def test_correct_plugin_passes(kind: str) -> None:
    report = report_of(kind)
    assert "TestSound::" in report
    assert not is_detected("::TestSound::", report)


def test_each_suite_is_tried_with_ten_faults() -> None:
    assert {kind for kind, faults in FAULTS.items() if len(faults) < 10} == set()


def test_each_check_of_the_suite_of_tiers_can_fail() -> None:
    checks = {name for name in vars(TierTests) if name.startswith("test_")}
    assert checks == set(TIER_FAULTS.values())
