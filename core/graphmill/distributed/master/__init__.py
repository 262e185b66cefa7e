"""The master of a cluster's sessions, whatever the protocol: it places, splits and drives steps."""
