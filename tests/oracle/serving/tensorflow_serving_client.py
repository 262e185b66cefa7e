"""A client with TensorFlow Serving's own messages and stubs; it prints its results as JSON.

python tensorflow_serving_client.py ADDRESS MODEL
"""

from __future__ import annotations

import json
import sys
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)


def main(address: str, model: str) -> dict[str, Any]:
    results: dict[str, Any] = {}
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = model
        values = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(values))
        response = stub.Predict(request, 30)
        results["model_spec"] = [
            response.model_spec.name,
            response.model_spec.version.value,
            response.model_spec.signature_name,
        ]
        results["y"] = tf.make_ndarray(response.outputs["y"]).tolist()
        results["float_val"] = list(response.outputs["y"].float_val)
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(values.astype(np.float64)))
        try:
            stub.Predict(request, 30)
        except grpc.RpcError as error:
            results["wrong_type"] = error.code().name
        metadata = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        metadata.model_spec.name = model
        answer = stub.GetModelMetadata(metadata, 30).metadata["signature_def"]
        signatures = get_model_metadata_pb2.SignatureDefMap()
        results["unpacked"] = answer.Unpack(signatures)
        results["dtype"] = signatures.signature_def["serving_default"].inputs["x"].dtype
        status = get_model_status_pb2.GetModelStatusRequest()
        status.model_spec.name = model
        states = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, 30)
        results["states"] = [
            [one.version, one.State.Name(one.state)] for one in states.model_version_status
        ]
    return results


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
