"""Export graphs as JAX functions and StableHLO programs, by the compiler's tracer."""
