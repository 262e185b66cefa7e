"""Masters, workers and clients over gRPC, in TensorFlow's protocol.

Semantics: `tensorflow/core/distributed_runtime`. grpcio (the extra `graphmill[grpc]`) is imported
when a server is started or a session is made for a target `grpc://HOST:PORT`, not before.
"""
