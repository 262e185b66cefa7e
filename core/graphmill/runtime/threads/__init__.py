"""Threads: pools for kernels, threads that drive steps, background jobs."""
