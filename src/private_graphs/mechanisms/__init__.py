"""Mechanisms: the door through which private data leave a run, and the replay test of runs."""
