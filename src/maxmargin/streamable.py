"""What every learner that can go on from row to row can do with a stream."""

from __future__ import annotations

from typing import Any


class Streamable:
    """Gives a learner with `partial_fit` the method `fit_stream`."""

    def fit_stream(
        self,
        source: Any,
        *,
        passes: int = 1,
        classes: Any = None,
        checkpoint: Any = None,
        every: int | None = None,
        progress: bool | None = None,
    ) -> Any:
        """Learn from a source of any size, in constant memory, in the order in which it comes.

        Each row is learnt from as by `partial_fit`; reading goes on meanwhile. Learning begins
        anew, unless `warm_start` is set. With a checkpoint, a process that dies at any moment,
        started again with the same arguments, ends with the model, to the bit, that it would have
        had; Ctrl-C writes one more checkpoint.

        Parameters
        ----------
        source : path, "-", or anything else that `maxmargin.streams.open` takes, or its result
        passes : int, default=1
            Times that all rows are presented; fewer if a pass brings no update any more or, with
            `tol`, if the margin is certified (which takes another look at all rows).
        classes : array of shape (n_classes,), default=None
            All labels that can occur. By default those that do; of a pipe, those in its first
            block.
        checkpoint : path, default=None
            File to note down the state in, and to go on from if it is there.
        every : int, default=None
            Write a checkpoint after so many rows, at the next end of a block; by default, after
            half a minute.
        progress : bool, default=None
            Show a bar on a terminal? By default, if `verbose` is set.

        Returns
        -------
        self
        """
        from maxmargin.streaming import fit_stream

        if progress is None:
            progress = bool(getattr(self, "verbose", False))
        fit_stream(
            self,
            source,
            passes=passes,
            classes=classes,
            checkpoint=checkpoint,
            every=every,
            progress=progress,
        )
        return self
