"""Sections of the page Evolution, each a module with `show`."""
