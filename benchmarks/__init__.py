"""Side by side with peers: ``python -m benchmarks [NAME ...] [--quick]``."""
