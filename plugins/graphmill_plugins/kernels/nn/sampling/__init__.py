"""Candidate samplers for sampled softmax and noise-contrastive losses."""
