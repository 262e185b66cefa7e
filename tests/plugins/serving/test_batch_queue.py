"""Requests wait in queues, and are combined to batches."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graphmill.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
)
from graphmill_plugins.serving.requests import batch_queue
from graphmill_plugins.serving.requests.batch_queue import BatchQueue
from graphmill_plugins.serving.requests.batching_options import BatchingOptions
from graphmill_plugins.serving.requests.run_times import (
    FORGIVING_RUNS,
    LONG_RUNS,
    SETTLED_RUNS,
    RunTimes,
)

TIMEOUT = 30.0


class Model:
    """Doubles its input; records the rows of each run; the first run waits until it may go on."""

    def __init__(self):
        self.rows = []
        self.started = threading.Event()
        self.may_go_on = threading.Event()

    def run(self, inputs, outputs):
        x = inputs["x"]
        self.rows.append(len(x))
        if len(self.rows) == 1:
            self.started.set()
            self.may_go_on.wait(TIMEOUT)
        if (x < 0).any():
            raise InvalidArgumentError("negative")
        return dict.fromkeys(outputs, x * 2)


def rows(*values):
    return {"x": np.array(values, np.float32)}


def run(scenario, run_model, **options):
    """Run a coroutine function with a queue."""

    async def main():
        with ThreadPoolExecutor(2) as executor:
            batches = []
            chosen = BatchingOptions(**{"num_threads": 1, **options})
            queue = BatchQueue("m", run_model, chosen, executor, batches.append)
            await scenario(queue)
            return batches

    return asyncio.run(main())


async def first_and_others(queue, model, others):
    """Submit a request, and others while it runs; return the results of all."""
    tasks = [asyncio.create_task(queue.submit(rows(1.0), ("y",), TIMEOUT))]
    await asyncio.to_thread(model.started.wait, TIMEOUT)
    tasks += [asyncio.create_task(queue.submit(one, ("y",), TIMEOUT)) for one in others]
    while len(queue) < len(others):
        await asyncio.sleep(0)
    model.may_go_on.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [r["y"].tolist() if isinstance(r, dict) else r for r in results]


def test_requests_that_arrive_while_the_model_runs_are_combined():
    model = Model()

    async def scenario(queue):
        results = await first_and_others(queue, model, [rows(2), rows(3, 4), rows(5)])
        assert results == [[2], [4], [6, 8], [10]]

    assert run(scenario, model.run, max_batch_size=8) == [1, 4]
    assert model.rows == [1, 4]


def test_requests_run_alone_without_batching():
    model = Model()

    async def scenario(queue):
        assert await first_and_others(queue, model, [rows(2), rows(3)]) == [[2], [4], [6]]

    run(scenario, model.run)
    assert model.rows == [1, 1, 1]


def test_batches_have_at_most_their_maximum_of_rows():
    model = Model()

    async def scenario(queue):
        await first_and_others(queue, model, [rows(2, 2), rows(3), rows(4, 4, 4, 4, 4), rows(5)])

    run(scenario, model.run, max_batch_size=3)
    assert model.rows == [1, 3, 5, 1]


def test_requests_of_other_shapes_are_not_combined():
    model = Model()

    async def scenario(queue):
        others = [{"x": np.ones((1, 2), np.float32)}, rows(2), {"x": np.ones((2, 2), np.float32)}]
        await first_and_others(queue, model, others)

    run(scenario, model.run, max_batch_size=8)
    assert model.rows == [1, 3, 1]


def test_a_request_at_fault_fails_alone():
    model = Model()

    async def scenario(queue):
        results = await first_and_others(queue, model, [rows(2), rows(-1), rows(3)])
        assert [results[0], results[1], results[3]] == [[2], [4], [6]]
        assert isinstance(results[2], InvalidArgumentError)

    run(scenario, model.run, max_batch_size=8)


def test_batches_are_padded_to_allowed_sizes():
    model = Model()

    async def scenario(queue):
        results = await first_and_others(queue, model, [rows(2), rows(3), rows(4)])
        assert results == [[2], [4], [6], [8]]

    run(scenario, model.run, max_batch_size=4, allowed_batch_sizes=(2, 4))
    assert model.rows == [2, 4]


@pytest.mark.parametrize(("pads_alone", "expected"), [(True, [4, 4, 8]), (False, [1, 3, 8])])
def test_lone_requests_are_padded_if_that_is_chosen(pads_alone, expected):
    model = Model()
    model.may_go_on.set()

    async def scenario(queue):
        for one in (rows(1), rows(1, 2, 3), rows(*range(8))):
            found = await queue.submit(one, ("y",), TIMEOUT)
            assert found["y"].tolist() == (one["x"] * 2).tolist()

    run(scenario, model.run, max_batch_size=8, allowed_batch_sizes=(4, 8), pads_alone=pads_alone)
    assert model.rows == expected


def test_requests_run_alone_if_an_output_lacks_their_rows():
    model = Model()

    def total(inputs, outputs):
        return {"y": model.run(inputs, outputs)["y"].sum()}

    async def scenario(queue):
        assert await first_and_others(queue, model, [rows(2), rows(3)]) == [2, 4, 6]

    run(scenario, total, max_batch_size=8)
    assert model.rows == [1, 2, 1, 1]


def test_a_batch_waits_up_to_the_maximum_wait_for_more_requests():
    model = Model()
    model.may_go_on.set()

    async def scenario(queue):
        tasks = [asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT))]
        await asyncio.sleep(0.01)
        tasks += [asyncio.create_task(queue.submit(rows(2), ("y",), TIMEOUT)) for _ in range(3)]
        await asyncio.gather(*tasks)

    run(scenario, model.run, max_batch_size=4, max_wait_seconds=TIMEOUT)
    assert model.rows == [4]


def test_too_many_requests_are_refused():
    model = Model()

    async def scenario(queue):
        first = asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT))
        await asyncio.to_thread(model.started.wait, TIMEOUT)
        second = asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT))
        await asyncio.sleep(0)
        with pytest.raises(ResourceExhaustedError, match="1 requests wait for m"):
            await queue.submit(rows(1), ("y",), TIMEOUT)
        model.may_go_on.set()
        await asyncio.gather(first, second)

    run(scenario, model.run, max_queued_requests=1)


def test_requests_that_expired_or_were_cancelled_do_not_run():
    model = Model()

    async def scenario(queue):
        first = asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT))
        await asyncio.to_thread(model.started.wait, TIMEOUT)
        cancelled = asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT))
        with pytest.raises(DeadlineExceededError, match=r"did not answer within 0\.01 s"):
            await queue.submit(rows(1), ("y",), 0.01)
        with pytest.raises(DeadlineExceededError):
            await queue.submit(rows(1), ("y",), -1.0)
        cancelled.cancel()
        model.may_go_on.set()
        await first
        await asyncio.gather(cancelled, return_exceptions=True)

    run(scenario, model.run)
    assert model.rows == [1]


def test_a_closed_queue_fails_its_requests():
    model = Model()

    async def scenario(queue):
        tasks = [asyncio.create_task(queue.submit(rows(1), ("y",), TIMEOUT)) for _ in range(2)]
        await asyncio.to_thread(model.started.wait, TIMEOUT)
        queue.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [UnavailableError] * 2
        with pytest.raises(UnavailableError):
            await queue.submit(rows(1), ("y",), TIMEOUT)
        model.may_go_on.set()

    run(scenario, model.run)


def test_an_error_that_is_not_typed_is_reported_as_internal():
    def fail(inputs, outputs):
        raise ZeroDivisionError("oops")

    async def scenario(queue):
        with pytest.raises(InternalError, match="ZeroDivisionError: oops"):
            await queue.submit(rows(1), ("y",), TIMEOUT)

    run(scenario, fail)


@pytest.fixture
def quick_clock(monkeypatch):
    """Make the clocks show that runs take no time."""
    for clock in ("perf_counter", "thread_time"):
        monkeypatch.setattr(batch_queue.time, clock, lambda: 0.0)


def test_the_time_of_a_run_is_its_shortest_of_late():
    times = RunTimes()
    for seconds in (0.01, 0.0002, *[0.002] * 50):
        times.add(seconds)
    assert times.is_quick
    for _ in range(100):
        times.add(0.002)
    assert not times.is_quick


def runs_until_quick(times):
    """Return the number of runs in another thread until a model may run in the event loop."""
    runs = 0
    while not times.is_quick:
        times.add(0.0001)  # it computes in threads of its own
        runs += 1
    return runs


def test_models_that_delay_the_event_loop_are_retried_with_back_off():
    times = RunTimes()
    runs_before = []
    for _ in range(3):
        runs_before.append(runs_until_quick(times))
        for _ in range(LONG_RUNS):
            times.add_inline(0.05)
    assert runs_before == [SETTLED_RUNS, 2 * SETTLED_RUNS, 4 * SETTLED_RUNS]


def test_a_few_long_runs_do_not_make_a_model_slow():
    times = RunTimes()
    runs_until_quick(times)
    for _ in range(5):  # the system runs another process meanwhile
        for _ in range(LONG_RUNS - 1):
            times.add_inline(0.05)
        times.add_inline(0.0001)
    assert times.is_quick


def test_long_runs_are_forgiven_after_many_short_ones():
    times = RunTimes()
    for _ in range(4):
        runs_until_quick(times)
        for _ in range(LONG_RUNS):
            times.add_inline(0.05)
    runs_until_quick(times)
    for _ in range(FORGIVING_RUNS):
        times.add_inline(0.0001)
    for _ in range(LONG_RUNS):
        times.add_inline(0.05)
    assert runs_until_quick(times) == 2 * SETTLED_RUNS


def test_quick_models_run_in_the_event_loop(quick_clock):
    threads = []

    def quick(inputs, outputs):
        threads.append(threading.current_thread())
        return inputs

    async def main(may_wait):
        with ThreadPoolExecutor(1) as executor:
            queue = BatchQueue(
                "m", quick, BatchingOptions(), executor, lambda rows: None, may_wait=may_wait
            )
            for _ in range(SETTLED_RUNS + 1):
                await queue.submit(rows(1), ("x",), TIMEOUT)
            is_inline = [thread is threading.main_thread() for thread in threads]
            threads.clear()
            return is_inline

    assert asyncio.run(main(may_wait=False)) == [False] * SETTLED_RUNS + [True]
    assert not any(asyncio.run(main(may_wait=True)))


def test_errors_of_quick_models_are_typed(quick_clock):
    def quick(inputs, outputs):
        raise ValueError("wrong")

    async def main():
        with ThreadPoolExecutor(1) as executor:
            options = BatchingOptions()
            queue = BatchQueue("m", quick, options, executor, lambda rows: None, may_wait=False)
            for _ in range(SETTLED_RUNS + 1):
                with pytest.raises(InternalError, match="ValueError: wrong"):
                    await queue.submit(rows(1), ("x",), TIMEOUT)

    asyncio.run(main())


def test_an_iteration_of_the_event_loop_answers_at_once_for_a_limited_time(quick_clock):
    threads = []

    def quick(inputs, outputs):
        threads.append(len(threads))
        return inputs

    async def main():
        with ThreadPoolExecutor(1) as executor:
            options = BatchingOptions()
            queue = BatchQueue("m", quick, options, executor, lambda rows: None, may_wait=False)
            for _ in range(SETTLED_RUNS):
                await queue.submit(rows(1), ("x",), TIMEOUT)
            queue._iteration_end = 0.0  # this iteration has taken too long
            late = asyncio.ensure_future(queue.submit(rows(1), ("x",), TIMEOUT))
            await asyncio.sleep(0)
            waited = len(queue)
            await late
            queue._end_iteration()
            await asyncio.ensure_future(queue.submit(rows(1), ("x",), TIMEOUT))
            return waited

    assert asyncio.run(main()) == 1
    assert threads == [*range(SETTLED_RUNS + 2)]


def test_single_requests_are_answered_immediately_until_others_arrive(quick_clock):
    sizes = []

    def quick(inputs, outputs):
        sizes.append(len(inputs["x"]))
        return inputs

    async def main():
        with ThreadPoolExecutor(1) as executor:
            options = BatchingOptions(max_batch_size=4)
            queue = BatchQueue("m", quick, options, executor, lambda rows: None, may_wait=False)

            async def submit(count):
                """Submit requests in one iteration; return the number answered at once."""
                tasks = [queue.submit(rows(1), ("x",), TIMEOUT) for _ in range(count)]
                futures = [asyncio.ensure_future(one) for one in tasks]
                await asyncio.sleep(0)
                at_once = sum(one.done() for one in futures)
                await asyncio.gather(*futures)
                await asyncio.sleep(0)  # to the end of the iteration
                return at_once

            for _ in range(SETTLED_RUNS):
                await submit(1)
            sizes.clear()
            return [await submit(count) for count in (1, 3, 3, 1)]

    assert asyncio.run(main()) == [1, 1, 0, 0]
    assert sizes == [1, 1, 2, 3, 1]


def test_batching_parameters_of_tensorflow_serving_are_read(tmp_path):
    path = tmp_path / "parameters"
    path.write_text(
        "max_batch_size { value: 32 } batch_timeout_micros { value: 1500 } "
        "num_batch_threads { value: 3 } max_enqueued_batches { value: 4 } "
        "allowed_batch_sizes: 8 allowed_batch_sizes: 32"
    )
    assert BatchingOptions.read(str(path), BatchingOptions()) == BatchingOptions(
        32, 0.0015, 128, 3, (8, 32)
    )


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("max_batch_size: 3", InvalidArgumentError, "not a BatchingParameters"),
        ("max_batch_size { value: 0 }", InvalidArgumentError, "expected at least 1"),
        ("batch_timeout_micros { value: -1 }", InvalidArgumentError, "is negative"),
        (
            "max_batch_size { value: 4 } allowed_batch_sizes: 3",
            InvalidArgumentError,
            "the last of which is max_batch_size",
        ),
        ("pad_variable_length_inputs: true", UnimplementedError, "pad_variable_length_inputs"),
        (
            "enable_large_batch_splitting { value: true }",
            UnimplementedError,
            "enable_large_batch_splitting",
        ),
    ],
)
def test_batching_parameters_that_are_wrong(tmp_path, text, error, message):
    path = tmp_path / "parameters"
    path.write_text(text)
    with pytest.raises(error, match=message):
        BatchingOptions.read(str(path), BatchingOptions())
