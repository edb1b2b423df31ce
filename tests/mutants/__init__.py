"""Mutation testing of the guards: what protects a slice in use must not be removable without a test noticing."""
