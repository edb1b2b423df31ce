"""Input that nobody means: whatever comes in, an error is one line, nothing hangs, and nothing in use goes."""
