"""The APIs over gRPC; imports grpcio."""
