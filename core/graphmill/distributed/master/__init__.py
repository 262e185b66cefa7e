"""The master of a cluster's sessions, for any protocol: it places, partitions and runs."""
