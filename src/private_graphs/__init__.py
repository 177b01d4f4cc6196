"""Differentially private graph learning: published results, recomputed with their real privacy."""

__version__ = "0.1.0"
