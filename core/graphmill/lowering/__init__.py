"""Lower a session's graph to executors: rewrite, prune, place, optimise, choose kernels."""
