"""Codecs of TensorFlow's variant types, each in the form of TensorFlow's `Encode` and `Decode`."""
