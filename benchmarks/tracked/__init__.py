"""Benchmarks of the core for asv; ``python -m benchmarks`` compares with other libraries."""
