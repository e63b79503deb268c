"""Experts that learn from the same rows, and how their predictions are weighed.

The experts of `AutoMargin` are lines of one table (`expert_table`): a family of steps
(`expert_steps`), a number, and a diagonal matrix that gives each column its step size
(`scaled_columns`, `standardized_columns`, `random_features`). `mixture` weighs their probabilities,
and `expert_loop` is the loop over rows. `votes` weighs predictions of other learners, for
`FixedShare`.
"""
