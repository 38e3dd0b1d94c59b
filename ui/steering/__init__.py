"""Sections of the system page, each with `show`: what people set, and what holds because of it."""
