"""A minimal server around a TensorFlow model, such as one could write in an hour.

    python minimal_tensorflow_server.py MODEL http|grpc

It takes and returns what graphmill's server of models does, for one model with one signature.
"""

from __future__ import annotations

import json
import socket
import sys
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tensorflow as tf

_MODEL = tf.saved_model.load(str(Path(sys.argv[1], "1")))
_PREDICT = _MODEL.signatures["serving_default"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise the kernel delays the body, which is sent after the headers, by 40 ms.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        instances = tf.constant(json.loads(body)["instances"], tf.float32)
        outputs = _PREDICT(x=instances)["y"].numpy().tolist()
        answer = json.dumps({"predictions": outputs}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Do not log requests."""


def serve_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"READY http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


def serve_grpc() -> None:
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request: Any, context: Any) -> Any:
            del context
            values = tf.constant(tf.make_ndarray(request.inputs["x"]))
            outputs = _PREDICT(x=values)["y"]
            response = predict_pb2.PredictResponse(model_spec=request.model_spec)
            response.outputs["y"].CopyFrom(tf.make_tensor_proto(outputs.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(16))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    print(f"READY grpc://127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


{"http": serve_http, "grpc": serve_grpc}[sys.argv[2]]()
