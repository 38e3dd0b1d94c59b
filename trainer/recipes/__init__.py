"""Recipes for projects that bring none of their own."""
