"""What a server tells of itself: counters, metrics, its status, its log."""
