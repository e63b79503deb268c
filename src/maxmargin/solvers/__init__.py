"""Exact solutions: one Newton driver, and the oracles and curvatures of its problems."""
