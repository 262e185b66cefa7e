"""Threads: the pool for kernels, threads that drive steps, jobs in the background."""
