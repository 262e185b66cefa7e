"""`NotConvertible`: why ONNX cannot hold a node."""

from __future__ import annotations


class NotConvertible(Exception):  # noqa: N818 - a finding that is listed, not an error of a user
    """Raised by a conversion for a node that ONNX cannot hold; the message says why."""
