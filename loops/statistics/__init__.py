"""Statistics shared by the loops: pure functions on numpy arrays, each with the source of its formula."""
