"""The learned state, built from a `ModelSpec`, never from an estimator."""

from maxmargin.models import budget_model, expert_model, kernel_model, linear_model, vote_model

# Their specifications, which `models.base.build` builds.
__all__ = ["budget_model", "expert_model", "kernel_model", "linear_model", "vote_model"]
