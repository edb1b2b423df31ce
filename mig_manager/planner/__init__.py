"""Exact planning: what to keep, destroy and create, at which cost, or why it cannot be."""
