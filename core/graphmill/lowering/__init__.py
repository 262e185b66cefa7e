"""Lower a session's graph to executors: rewrite, prune, place, optimize, choose kernels."""
