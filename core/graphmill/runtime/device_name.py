"""Device names for the floors above; they live with the graph, whose device scopes merge them."""

from graphmill.graph.device_name import DeviceName, canonical_device_name, parse_device_name

__all__ = ["DeviceName", "canonical_device_name", "parse_device_name"]
