"""Modules with examples that need what this machine may not have."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("river") else ["src/maxmargin/river"]
if not find_spec("sklearn.callback"):
    collect_ignore += ["src/maxmargin/evaluate/monitor.py"]
