"""One file per algorithm: its rule, its estimator, and the bound of its theorem."""
