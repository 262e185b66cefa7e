"""From a session's graph to executors: rewrite and prune, place, optimise, choose kernels."""
