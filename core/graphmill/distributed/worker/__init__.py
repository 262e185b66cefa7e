"""The worker of a cluster's task, whatever the protocol: sessions, graphs, rendezvous, steps."""
