"""Membership inference (under construction)."""

from __future__ import annotations


def attack(job, dataset, guarantee, context):
    """Return nothing yet."""
    return []
