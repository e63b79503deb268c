"""Learning from a source of any size, in constant memory, and going on after a crash."""

from __future__ import annotations

import copy
import inspect
import time
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from maxmargin import examples, streams
from maxmargin._terminal import bar
from maxmargin.checkpoints import Checkpoint, CheckpointFile
from maxmargin.estimator import OnlineClassifier
from maxmargin.growing import can_have_room, grow_model
from maxmargin.interrupts import Interrupts
from maxmargin.structure import check_stream_can_start

# Without a number of rows, checkpoints are written so often.
SECONDS_BETWEEN_CHECKPOINTS = 30.0


def fit_stream(
    clf: Any,
    source: Any,
    *,
    passes: int,
    classes: Any,
    checkpoint: Any,
    every: int | None,
    progress: bool,
) -> None:
    """See `OnlineClassifier.fit_stream`."""
    for name, value in (("passes", passes), ("every", 1 if every is None else every)):
        if not (isinstance(value, Integral) and value >= 1):
            raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}.")
    clf._validate_params()
    if isinstance(clf, OnlineClassifier) and not hasattr(clf, "classes_"):
        check_stream_can_start(clf)
    # What goes on learns from columns as they were read before.
    schema = getattr(clf, "schema_", None) if getattr(clf, "warm_start", False) else None
    source = streams.open(source, schema=schema)
    _check_passes(clf, source, passes)
    file = None if checkpoint is None else CheckpointFile(checkpoint)
    stand, guessed = None if file is None else file.read(), True
    if stand is None:
        survey = source.glance()
        if classes is None and np.size(survey.classes) < 2:  # they may be sorted by label
            survey = source.survey()
        stand = _beginning(clf, source, survey, classes, file)
    else:
        _check_same(stand, clf, source, classes, passes)
        source.restore(stand.schema)
    while True:
        try:
            Run(stand, source, passes, file, every, guessed and classes is None).go(progress)
            break
        except streams.Surprise:
            if not (guessed and source.repeatable):
                raise
            stand, guessed = _beginning(clf, source, source.survey(), classes, file), False
        except KeyboardInterrupt:
            if hasattr(stand.learner, "classes_"):
                _adopt(clf, stand.learner)
            raise
    _adopt(clf, stand.learner)


def _beginning(
    clf: Any, source: streams.Source, survey: streams.Survey, classes: Any, file: Any
) -> Checkpoint:
    """Nothing is learnt yet."""
    if survey.classes is None:
        raise ValueError(f"{source.name} has no labels.")
    learner = copy.deepcopy(clf) if getattr(clf, "warm_start", False) else clone(clf)
    if hasattr(learner, "classes_"):
        classes = learner.classes_
    if classes is not None and np.unique(classes).size < 2:
        raise ValueError(f"classes must name at least two labels, got {list(classes)}.")
    classes = survey.classes if classes is None else np.unique(classes)
    _check_classes(classes, source)
    return Checkpoint(
        learner,
        classes=classes,
        updates=getattr(learner, "n_updates_", 0),
        source=source.identity() if file else "",
        schema=source.schema(),
    )


class Run:
    """Passes over a source, from where a checkpoint stands.

    If its classes are ``guessed``, another one is a surprise, not an error.
    """

    def __init__(
        self,
        stand: Checkpoint,
        source: streams.Source,
        passes: int,
        file: CheckpointFile | None,
        every: int | None,
        guessed: bool,
    ) -> None:
        self.stand = stand
        self.source = source
        self.passes = passes
        self.file = file
        self.every = every
        self.guessed = guessed
        self._written_at = time.monotonic()
        self._written_row = stand.position.row

    def go(self, progress: bool) -> None:
        """Learn until nothing is left to do; Ctrl-C leaves a checkpoint."""
        stand, size = self.stand, self.source.total
        total = None if size is None else size / 1e6
        if stand.passes >= self.passes or stand.settled:
            return
        with Interrupts() as interrupts:
            self._write()  # to know at once whether it can be done
            try:
                while stand.passes < self.passes and not stand.settled:
                    with bar(
                        self._title(), total and total / 1e6, "MB", enabled=progress
                    ) as advance:
                        self._one_pass(interrupts, advance)
                    self._leave_no_room()
                    settled = self._has_settled()
                    with interrupts.held_back():
                        self._end_pass(settled)
            finally:
                self._leave_no_room()
                stand.learner.schema_ = self.source.schema()
                self._write()

    def _title(self) -> str:
        learner = self.stand.learner
        title = f"{type(learner).__name__}, pass {self.stand.passes + 1}"
        if self.stand.passes and getattr(learner, "tol", None) is not None:
            return f"{title}, certified {learner.certificate_.ratio:.4f}"
        return title

    def _one_pass(self, interrupts: Interrupts, advance: Any) -> None:
        stand, done, began = self.stand, 0, time.perf_counter()
        first_row = stand.position.row
        for block in self.source.blocks(stand.position):
            with interrupts.held_back():
                self._learn(block)
                stand.position = block.end
                if self._is_due():
                    self._write()
            rows = block.end.row - first_row
            rate = rows / max(time.perf_counter() - began, 1e-9)
            mistakes = stand.learner.n_mistakes_
            note = f"{block.end.row:,} rows, {rate:,.0f} rows/s, {mistakes:,} mistakes"
            advance((block.done - done) / 1e6, note=note)
            done = block.done

    def _learn(self, block: streams.Block) -> None:
        assert block.y is not None
        learner, classes = self.stand.learner, self.stand.classes
        fitted = hasattr(learner, "classes_")
        where = f"{self.source.name}, in rows {self.stand.position.row:,} to {block.end.row - 1:,}"
        if (strange := np.setdiff1d(block.y, classes)).size:
            raise (streams.Surprise if self.guessed else streams.StreamError)(
                f"{where}: the labels {strange.tolist()} are not among the classes "
                f"{classes.tolist()}; pass all of them as classes."
            )
        X, more = block.X, {}
        if fitted and X.shape[1] > learner.n_features_in_:
            more = self._make_room(X)
        self.stand.width = max(self.stand.width, X.shape[1])
        if fitted and sparse.issparse(X) and X.shape[1] < learner.n_features_in_:
            shape = (X.shape[0], learner.n_features_in_)
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=shape, copy=False)
        try:
            learner.partial_fit(X, block.y, None if fitted else classes, **more)
        except ValueError as error:
            raise streams.StreamError(f"{where}: {error}") from error

    def _make_room(self, X: Any) -> dict[str, Any]:
        """Let the learner take rows that are as wide as these; what `partial_fit` is to be told.

        Where columns of which nothing is known yet make no difference, there will be some more of
        them than needed, so that this does not happen again soon.
        """
        learner, width = self.stand.learner, X.shape[1]
        if sparse.issparse(X) and can_have_room(learner, 2 * width):
            self._resize(2 * width)
            return {}
        if self.source.repeatable:
            raise streams.Surprise(f"{self.source.name}: rows have become wider.")
        if "grow" not in inspect.signature(learner.partial_fit).parameters:
            raise streams.StreamError(
                f"{self.source.name}: rows have become wider, and {type(learner).__name__} must "
                "know the number of columns from the start."
            )
        return {"grow": True}

    def _resize(self, width: int) -> None:
        learner = self.stand.learner
        grow_model(learner, width, learner.classes_)
        learner.n_features_in_ = width

    def _leave_no_room(self) -> None:
        """The learner knows the columns that there were, and no others."""
        if 0 < self.stand.width < getattr(self.stand.learner, "n_features_in_", 0):
            self._resize(self.stand.width)

    def _has_settled(self) -> bool:
        """Is there nothing left to learn?"""
        stand, learner = self.stand, self.stand.learner
        if stand.position.row == 0:
            raise streams.StreamError(f"{self.source.name}: there are no rows.")
        settled = getattr(learner, "_settles", False) and learner.n_updates_ == stand.updates
        if getattr(learner, "tol", None) is not None:
            ratio = measure(learner, self.source)
            settled |= ratio > 0.0 and ratio >= 1.0 - learner.tol
        return bool(settled)

    def _end_pass(self, settled: bool) -> None:
        stand, learner = self.stand, self.stand.learner
        stand.passes += 1
        stand.settled = settled
        stand.updates = getattr(learner, "n_updates_", 0)
        self._written_row -= stand.position.row  # rows of several passes count together
        stand.position = streams.START
        learner.n_iter_, learner.converged_ = stand.passes, settled

    def _is_due(self) -> bool:
        if self.file is None:
            return False
        if self.every is None:
            return time.monotonic() - self._written_at >= SECONDS_BETWEEN_CHECKPOINTS
        return self.stand.position.row - self._written_row >= self.every

    def _write(self) -> None:
        if self.file is not None:
            self.stand.schema = self.source.schema()
            self.file.write(self.stand)
            self._written_at, self._written_row = time.monotonic(), self.stand.position.row


def measure(learner: Any, source: streams.Source) -> float:
    """The certified share of the best margin on all rows, which takes one more look at them."""
    lowest: Any = np.inf
    for block in source.blocks():
        assert block.y is not None
        rows = learner._model.rows(block.X)
        numbers = examples.class_numbers(block.y, learner.classes_)
        lowest = np.minimum(lowest, learner._model.margins(rows, learner._targets(numbers)))
    learner._margins = lowest
    return learner.certificate_.ratio


def _check_passes(clf: Any, source: streams.Source, passes: int) -> None:
    looks = passes > 1 or getattr(clf, "tol", None) is not None
    if looks and not source.repeatable:
        raise ValueError(
            f"More than one pass, and tol, need a source that can be read again; {source.name} "
            "cannot."
        )
    if looks and getattr(clf, "soft_margin", 0.0) > 0.0:
        raise ValueError(
            "soft_margin > 0 gives each row a coordinate of its own, which would have to be kept "
            "between passes: use passes=1 and tol=None, or fit."
        )
    if getattr(clf, "tol", None) is not None and clf.kernel != "linear":
        raise ValueError("tol with a kernel needs all rows at once: use fit, or tol=None.")


def _check_classes(classes: Any, source: streams.Source) -> None:
    if classes.size == 0:
        raise streams.StreamError(f"{source.name}: there are no rows.")
    if classes.size == 1:
        where = "" if source.repeatable else ", in its first block; name all of them as classes"
        raise ValueError(f"{source.name} has only one class, {classes.tolist()}{where}.")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise streams.StreamError(f"{source.name}: there are labels that are no numbers.")


def _check_same(
    stand: Checkpoint, clf: Any, source: streams.Source, classes: Any, passes: int
) -> None:
    """Refuse to go on with another learner, or another source, or farther on than asked for."""
    if type(stand.learner) is not type(clf):
        raise ValueError(
            f"The checkpoint is one of {type(stand.learner).__name__}, not {type(clf).__name__}; "
            "use another file, or delete it."
        )
    then, now = stand.learner.get_params(deep=False), clf.get_params(deep=False)
    for name, value in now.items():
        if _comparable(then[name]) != _comparable(value):
            raise ValueError(
                f"The checkpoint was made with {name}={then[name]!r}, not {value!r}; use another "
                "file, or delete it."
            )
    if stand.source != source.identity():
        raise ValueError(
            f"The checkpoint is one of another source than {source.name}, or of what it was "
            "before it was changed; use another file, or delete it."
        )
    if classes is not None and not np.array_equal(np.unique(classes), stand.classes):
        raise ValueError(
            f"The checkpoint was made for the classes {stand.classes.tolist()}; use another file, "
            "or delete it."
        )
    if (stand.passes, stand.position.row) > (passes, 0):
        raise ValueError(
            f"The checkpoint is farther on than passes={passes}: {stand.passes} passes and "
            f"{stand.position.row:,} rows; use another file, or delete it."
        )


def _comparable(value: Any) -> str:
    """A parameter as text; of generators of random numbers, which go on, only the kind."""
    is_plain = value is None or isinstance(value, bool | int | float | str | np.generic)
    return repr(getattr(value, "item", lambda: value)()) if is_plain else type(value).__name__


def _adopt(clf: Any, learner: Any) -> None:
    """Give ``clf`` all that ``learner`` has learnt."""
    if clf is learner:
        return
    parameters = clf.get_params(deep=False)
    for name in [name for name in vars(clf) if name not in parameters]:
        del clf.__dict__[name]
    for name, value in vars(learner).items():
        if name not in parameters:
            clf.__dict__[name] = value
