"""Devices, their memory, and the transfer of values between them."""
