"""What a learner knows, built from a `ModelSpec`, never from an estimator."""
