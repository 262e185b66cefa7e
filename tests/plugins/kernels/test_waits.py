"""The kernels that may wait for another node of the step declare it."""

from __future__ import annotations

import importlib

import pytest

from graphmill.runtime.kernels.kernel import kernels_of
from graphmill_plugins import kernels
from graphmill_plugins.kernels._ops import OPS

MODULES = {op: module for module, ops in OPS.items() for op in ops.split()}

CALLS = """
    PartitionedCall StatefulPartitionedCall RemoteCall If StatelessIf _If Case StatelessCase
    While StatelessWhile _While For SymbolicGradient
"""
BLOCKS_ITS_THREAD = """
    PyFunc PyFuncStateless EagerPyFunc IteratorGetNextSync MultiDeviceIteratorGetNextFromShard
"""
WAITS_WITHOUT_A_THREAD = """
    QueueEnqueueV2 QueueDequeueV2 QueueDequeueManyV2 Stage Unstage MapPeek MapUnstage
    MutexLock BarrierTakeMany AccumulatorTakeGradient IteratorGetNext
    IteratorGetNextAsOptional ReaderReadV2
"""
DECLARES_NOTHING = "Recv _HostRecv"


def definitions(op):
    module = importlib.import_module(f"{kernels.__name__}.{MODULES[op]}")
    return [found for found in kernels_of(module) if op in found.ops]


@pytest.mark.parametrize("op", CALLS.split())
def test_kernel_that_only_calls_functions_is_not_waiting(op):
    assert [(found.async_, found.may_wait) for found in definitions(op)] == [(True, False)]


@pytest.mark.parametrize("op", BLOCKS_ITS_THREAD.split())
def test_a_kernel_that_blocks_its_thread_may_wait(op):
    assert [(found.async_, found.may_wait) for found in definitions(op)] == [(False, True)]


@pytest.mark.parametrize("op", WAITS_WITHOUT_A_THREAD.split())
def test_a_kernel_that_waits_without_a_thread_declares_it(op):
    assert [(found.async_, found.waits) for found in definitions(op)] == [(True, True)]


@pytest.mark.parametrize("op", DECLARES_NOTHING.split())
def test_an_asynchronous_kernel_may_wait_by_default(op):
    assert [(found.async_, found.waits, found.may_wait) for found in definitions(op)] == [
        (True, None, True)
    ]
