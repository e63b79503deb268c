"""What a learner knows, and how it is shown rows; built from a `ModelSpec`, never from an estimator."""
