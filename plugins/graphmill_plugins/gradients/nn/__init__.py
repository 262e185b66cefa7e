"""Gradients of neural-network ops."""
