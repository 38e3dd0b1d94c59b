"""Constants of Newton-Schulz. Shape letters: E matrices, M rows, N columns."""

STEPS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""a, b, c of x -> a x + b x^3 + c x^5 on singular values (Muon, Keller Jordan 2024)."""
EPSILON = 1e-7
