"""The papers behind `maxmargin`: their data, their experiments, and the demo.

The library does not need this package. It finds the commands ``reproduce`` and ``demo`` through
entry points, and `maxmargin.datasets` imports the data sets on first use.
"""
