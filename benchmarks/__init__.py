"""Measured claims; nothing imports this package."""
