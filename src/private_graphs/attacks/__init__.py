"""Attacks on trained models: what they show is a lower bound on what training revealed."""
