"""What can go wrong with the control plane of the demo and the tests."""

from __future__ import annotations


class ControlPlaneError(Exception):
    """The control plane cannot be had; the message says what failed, where, and what to do."""
