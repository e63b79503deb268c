"""The columns of a learner, by their numbers and by their names."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np

from maxmargin.training.types import Columns


class Features(NamedTuple):
    """The columns that a learner has weights for.

    Attributes
    ----------
    count : int
    names : array of str or None
        As a table gave them.
    columns : dict or None
        As dicts gave them: the first ``count`` are the columns of names. It is shared with the
        features that come after these and only ever gets longer, so that a name more costs nothing.
    """

    count: int  # type: ignore[assignment]
    names: np.ndarray | None = None
    columns: Columns | None = None

    def shared_columns(self) -> Columns | None:
        """`named_columns` without a copy, of which only the first ``count`` are meant."""
        return self.named_columns() if self.columns is None else self.columns

    def named_columns(self) -> Columns | None:
        """The columns of names, from dicts or from a table; None if there are no names."""
        if self.columns is not None:
            return dict(islice(self.columns.items(), self.count))
        return None if self.names is None else {name: k for k, name in enumerate(self.names)}
