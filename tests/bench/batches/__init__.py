"""The benchmark of batch runs over images (`python tests/bench/batches`)."""
