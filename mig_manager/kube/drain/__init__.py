"""Draining: which pods may be made to leave, and asking them to, without any state of its own."""
