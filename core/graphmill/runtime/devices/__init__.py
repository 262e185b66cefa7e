"""Devices: what computes, with its memory and how values travel between two of them."""
