"""What holds for all tests and examples, before anything is imported."""

import os
from importlib.util import find_spec

# Optimizing less takes a sixth of the time of compiling away, and changes no bit of any result:
# loops fix the order of their sums. `make test-all` optimizes as users do.
if os.environ.get("MAXMARGIN_TESTS") != "all":
    os.environ.setdefault("NUMBA_OPT", "1")

# Modules with examples that need what this machine may not have.
collect_ignore = [] if find_spec("river") else ["src/maxmargin/river"]
