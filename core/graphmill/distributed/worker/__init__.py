"""The worker of a cluster's task, for any protocol: sessions, graphs, rendezvous, steps."""
