"""The method `fit_stream`: learning from a source of any size, with checkpoints."""

from __future__ import annotations

from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from maxmargin import streams
from maxmargin._extras import Self
from maxmargin.estimator.learner import BaseLearner
from maxmargin.training.stream_run import Request, fit_stream


class Streamable(BaseLearner):
    """A learner with the method `fit_stream`."""

    def fit_stream(
        self,
        source: Any,
        *,
        passes: int = 1,
        classes: ArrayLike | None = None,
        recipe: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int | None = None,
        progress: bool | None = None,
    ) -> Self:
        """Learn from a source of any size, in constant memory and in its order.

        Each row is learned as by `partial_fit`, while further rows are read. A learner that has
        learned goes on, with its columns, recipe and classes: two files one after the other give
        the same model, to the bit, as one file with the rows of both (one pass each, without
        ``tol``). `sklearn.base.clone` gives a learner that starts from scratch. With a checkpoint,
        a process that died at any moment and is started again with the same arguments ends with the
        same model, to the bit, as an uninterrupted one; Ctrl-C writes a checkpoint. The learner
        itself keeps the model that it had before, unless the call completes.

        Sample weights come from the source: from the column ``weight`` of a table, behind the label
        in svmlight text (``label:weight column:value ...``), or beside the labels of arrays and
        iterables.

        Parameters
        ----------
        source : path, "-", or anything else that `maxmargin.streams.open` takes, or its result
        passes : int, default=1
            Maximum number of passes. Learning stops earlier if a pass makes no update or, with
            `tol`, if the margin is certified (which takes another pass).
        classes : array of shape (n_classes,), default=None
            All possible labels. By default those in the data; for a pipe, those in its first
            block.
        recipe : Recipe, default=None
            Prepares the rows, see `maxmargin.streams.Recipe`. The learner stores it (`recipe_`)
            and takes raw rows from then on. A learner that has learned keeps its own.
        checkpoint : path, default=None
            File for the state; if it exists, the run continues from it.
        every : int, default=None
            Rows between checkpoints, rounded up to the end of a block; by default, one is written
            every half minute.
        progress : bool, default=None
            Show a progress bar on a terminal. By default, if `verbose` is set.

        Returns
        -------
        self
        """
        request = Request(passes, classes, checkpoint, every, bool(progress))
        if progress is None:
            request = request._replace(progress=bool(getattr(self, "verbose", False)))
        request.check()
        self.check_parameters()
        before = self.__state__()
        if before is None:
            self.check_can_stream()
        elif recipe is not None:
            raise ValueError(
                "The learner has learned, and goes on with the columns that it knows: leave out "
                "recipe, or start from scratch with sklearn.base.clone(clf)."
            )
        opened = streams.open(source, schema=before and before.schema, recipe=recipe)
        self._state = fit_stream(self, before, opened, request)
        return self

    def check_can_stream(self) -> None:
        """Raise if a parameter depends on all rows of a fit."""
        self.__trainer__().check_can_stream()
