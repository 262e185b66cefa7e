"""The conversions of TensorFlow's ops, by family."""
