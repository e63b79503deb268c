"""Learning as functions from state to state, without an estimator."""
