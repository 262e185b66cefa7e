"""Variant values as bytes: codecs that plugins register, and tensors of objects as messages."""
