"""Errors at any line of the package."""

import sys
from collections import Counter
from pathlib import Path

import maxmargin

PACKAGE = str(Path(maxmargin.__file__).parent)


class Tracer:
    """Counts the lines of this package, or of one file of it, that are run in this thread.

    At one of them it raises an error. Without one it remembers where the lines stand.
    """

    def __init__(self, at=-1, error=None, where=PACKAGE):
        self.at, self.error, self.where = at, error, where
        self.lines, self.places = 0, []

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _enter(self, frame, event, arg):
        return self._line if frame.f_code.co_filename.startswith(self.where) else None

    def _line(self, frame, event, arg):
        if event == "line":
            self.lines += 1
            if self.error is None:
                self.places.append((frame.f_code, frame.f_lineno))
            elif self.lines == self.at:
                raise self.error
        return self._line

    def turns(self):
        """The numbers of the lines that were run for the first, the second or the last time."""
        times, last = Counter(), {}
        turns = set()
        for number, place in enumerate(self.places, start=1):
            times[place] += 1
            last[place] = number
            if times[place] <= 2:
                turns.add(number)
        return sorted(turns.union(last.values()))
