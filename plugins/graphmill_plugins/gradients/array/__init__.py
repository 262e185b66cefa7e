"""Gradients of array ops."""
