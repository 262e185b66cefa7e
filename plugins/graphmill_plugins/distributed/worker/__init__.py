"""TensorFlow's worker service over gRPC: its methods, and the other tasks' as peers."""
