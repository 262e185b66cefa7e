"""Call Predict of a server for some seconds; print the rate and two percentiles in ms.

python grpc_load.py ADDRESS CALLS SECONDS COLUMNS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import grpc.aio
import numpy as np

from graphmill import proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto

METHOD = "/tensorflow.serving.PredictionService/Predict"


async def main(address: str, calls: int, seconds: float, columns: int) -> None:
    request = proto.PredictRequest()
    request.model_spec.name = "mlp"
    request.inputs["x"].CopyFrom(numpy_to_tensor_proto(np.full((1, columns), 0.5, np.float32)))
    data = request.SerializeToString()
    times: list[float] = []
    async with grpc.aio.insecure_channel(address) as channel:
        predict = channel.unary_unary(METHOD)
        answer = proto.PredictResponse.FromString(await predict(data))
        if len(answer.outputs) != 1:
            raise AssertionError(f"an unexpected answer: {answer}")

        async def call_until(end: float, found: list[float]) -> None:
            while (started := time.perf_counter()) < end:
                await predict(data)
                found.append(time.perf_counter() - started)

        for duration, found in ((1.0, []), (seconds, times)):
            end = time.perf_counter() + duration
            await asyncio.gather(*[call_until(end, found) for _ in range(calls)])
    p50, p99 = np.percentile(times, [50, 99]) * 1000
    print(json.dumps([len(times) / seconds, p50, p99]))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])))
