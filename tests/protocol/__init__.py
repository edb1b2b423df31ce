"""The grant protocol: an exhaustively searched model of it, and the product driven along the same actions."""
