"""Learning from a source of any size, in constant memory, with checkpoints."""

from __future__ import annotations

import contextlib
import copy
import time
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin import streams
from maxmargin._interrupts import uninterrupted
from maxmargin._terminal import bar
from maxmargin.certificates.directed_rounding import text_down
from maxmargin.models.base import OnlineModel
from maxmargin.models.spec import BudgetSpec, ExpansionSpec
from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.training.inputs import as_targets, class_codes, likely_classes, listed
from maxmargin.training.online import known_classes
from maxmargin.training.passes import certificate_of
from maxmargin.training.protocol import (
    Batch,
    Trainer,
    is_learner,
    state_of,
    trainer_of,
    with_state,
)
from maxmargin.training.recipes import restored, storable
from maxmargin.training.state import (
    RECIPE,
    Advance,
    Matrix,
    State,
    Tree,
    grown,
    online_model,
    takes_unused_columns,
)

# How often checkpoints are written, unless ``every`` says so.
SECONDS_BETWEEN_CHECKPOINTS = 30.0
MEGABYTE = 1e6


class Request(NamedTuple):
    """The arguments of `fit_stream`."""

    passes: int = 1
    classes: ArrayLike | None = None
    checkpoint: str | PathLike[str] | None = None
    every: int | None = None
    progress: bool = False
    grow: bool = False  # learn new labels

    def check(self) -> None:
        every = 1 if self.every is None else self.every
        for name, value in (("passes", self.passes), ("every", every)):
            if not (isinstance(value, Integral) and value >= 1):
                raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}.")


def fit_stream(
    learner: BaseEstimator, before: State | None, source: streams.Source, request: Request
) -> State:
    """The state after a source, starting from ``before``; the learner itself does not change."""
    trainer, classes = trainer_of(learner), request.classes
    _check_passes(trainer, source, request.passes)
    if request.grow and not trainer.can_grow:
        raise ValueError(
            f"grow=True: {trainer.options.name} must know all labels from the start: list them "
            "with classes=."
        )
    file = None if request.checkpoint is None else CheckpointFile(request.checkpoint)
    progress = None if file is None else file.read(RunProgress.of)
    if progress is None:
        survey = source.glance()
        found_classes: ArrayLike = () if survey.classes is None else survey.classes
        if before is None and classes is None and np.size(found_classes) < 2:
            survey = source.survey()  # rows may be sorted by label
        progress = _initial_progress(learner, before, source, survey, request)
    else:
        progress.check_same(learner, source, classes, request.passes)
        progress.learner = learner
        source.restore(progress.schema)
    guessed = before is None and classes is None
    try:
        return Run(source, file, request, progress, guessed).execute()
    except streams.Surprise:
        if not source.repeatable:
            raise
    progress = _initial_progress(learner, before, source, source.survey(), request)
    return Run(source, file, request, progress, guessed=False, surveyed=True).execute()


@dataclass
class RunProgress:
    """The progress of a run over a stream: what a checkpoint holds."""

    learner: BaseEstimator
    state: State | None
    classes: np.ndarray
    schema: Tree  # by which rows are read
    width: int = 0  # columns seen so far; the state may have more
    position: int = 0  # rows of the current pass that were learned
    passes: int = 0  # completed
    updates: int = 0  # before the current pass; the first one is never quiet after other rows
    settled: bool = False  # converged
    source: str = ""  # its identity

    def place(self) -> str:
        """A description for messages."""
        return f"row {self.position:,} of pass {self.passes + 1}"

    def content(self) -> Tree:
        """The progress for a file."""
        kept = {name: value for name, value in vars(self).items() if name != "state"}
        learner, schema = with_state(self.learner, self.state), storable(self.schema)
        return {**kept, "learner": learner, "schema": schema}

    @classmethod
    def of(cls, content: Tree) -> RunProgress:
        """The progress with the content of a file; raises if a run cannot resume from it."""
        learner, classes = content["learner"], content["classes"]
        if not (is_learner(learner) and hasattr(learner, "fit_stream")):
            raise ValueError("it contains no learner")
        state = state_of(learner)
        content = {**content, "schema": restored(content["schema"])}
        progress = cls(state=state, **content)
        counts = (progress.position, progress.width, progress.passes, progress.updates)
        if not all(type(number) is int and 0 <= number < 2**62 for number in counts):
            raise ValueError("its counts are not whole numbers")
        if not (isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1):
            raise ValueError("its classes are not at least two labels")
        wanted = (bool, str, dict)
        if (type(progress.settled), type(progress.source), type(progress.schema)) != wanted:
            raise ValueError("it does not describe a source")
        if state is not None and not np.array_equal(state.classes, classes):
            raise ValueError("its learner has other classes")
        if progress.position > 0 and state is None:
            raise ValueError("its learner has learned nothing")
        return progress

    def check_same(
        self, wanted: BaseEstimator, source: streams.Source, classes: ArrayLike | None, passes: int
    ) -> None:
        """Raise unless learner, source, classes and number of passes fit the checkpoint."""
        instead = "use another file, or delete it."
        kind, other = type(self.learner), type(wanted)
        if kind is not other:
            raise ValueError(
                f"The checkpoint is one of {kind.__name__}, not {other.__name__}; {instead}"
            )
        then, now = self.learner.get_params(deep=False), wanted.get_params(deep=False)
        for name, value in now.items():
            if _comparable(then[name]) != _comparable(value):
                made = f"{name}={then[name]!r}"
                raise ValueError(f"The checkpoint was made with {made}, not {value!r}; {instead}")
        if self.source != source.identity():
            raise ValueError(
                f"The checkpoint is one of another source than {source.name}, or of what it was "
                f"before it was changed; {instead}"
            )
        if classes is not None and not np.array_equal(np.unique(classes), self.classes):
            raise ValueError(
                f"The checkpoint was made for the classes {listed(self.classes)}; {instead}"
            )
        if (self.passes, self.position) > (passes, 0):
            raise ValueError(
                f"The checkpoint is farther on than passes={passes}: {self.passes} passes and "
                f"{self.position:,} rows; {instead}"
            )


def _comparable(value: Any) -> str:
    """A parameter as text; of objects with a state, such as random generators, only the type."""
    if isinstance(value, dict):
        return repr(sorted((_comparable(key), _comparable(each)) for key, each in value.items()))
    is_plain = value is None or isinstance(value, bool | int | float | str | np.generic)
    return repr(getattr(value, "item", lambda: value)()) if is_plain else type(value).__name__


def _initial_progress(
    learner: BaseEstimator,
    before: State | None,
    source: streams.Source,
    survey: streams.Survey,
    request: Request,
) -> RunProgress:
    """The progress of a run at its first row."""
    classes = request.classes
    source.begin()
    if survey.classes is None:
        raise ValueError(f"{source.name} has no labels.")
    if before is not None:
        _check_same_columns(before, source)
        if classes is not None and not before.unseen:
            known_classes(classes, before.classes)
        model, classes = before.model, before.classes
        # Margins are measured on the rows of this source only, and bounds are then about the same.
        if trainer_of(learner).options.tol is not None:
            model = online_model(before).continued()
        else:
            model = model.copy() if isinstance(model, OnlineModel) else copy.deepcopy(model)
        before = before._replace(model=model, ceiling=np.inf)
    if classes is not None and np.unique(classes).size < 2:
        raise ValueError(f"classes must name at least two labels, got {list(classes)}.")  # type: ignore[arg-type]
    if classes is None:
        classes = likely_classes(survey.classes, survey.rows)
    classes = np.unique(classes)
    _check_classes(classes, source)
    return RunProgress(
        learner,
        before,
        classes,
        source.schema(),
        width=0 if before is None else before.features.count,
        source="" if request.checkpoint is None else source.identity(),
    )


class Run:
    """Passes over a source, starting at ``progress``, which is kept up to date.

    If the classes were ``guessed``, a new one raises `streams.Surprise` instead of an error, and so
    do wider rows that the model cannot take, unless the source was ``surveyed``.
    """

    def __init__(
        self,
        source: streams.Source,
        file: CheckpointFile | None,
        request: Request,
        progress: RunProgress,
        guessed: bool,
        surveyed: bool = False,
    ) -> None:
        self.source, self.file, self.request = source, file, request
        self.progress, self.guessed, self.surveyed = progress, guessed, surveyed
        self.trainer = trainer_of(progress.learner)
        self.options = self.trainer.options
        self._written_at = time.monotonic()
        self._written_row = progress.position

    def execute(self) -> State:
        """The state after the remaining passes; Ctrl-C leaves a checkpoint."""
        if not self._is_over():
            total = None if self.source.total is None else self.source.total / MEGABYTE
            self._write()  # fails now if it cannot be written
            try:
                while not self._is_over():
                    with bar(self._title(), total, "MB", enabled=self.request.progress) as advance:
                        self._one_pass(advance)
                    self._drop_unused_columns()
                    self.source.end_pass()
                    settled = self._has_settled()
                    with uninterrupted():
                        self._end_pass(settled)
            finally:
                with uninterrupted():
                    self._drop_unused_columns()
                    if self.progress.state is not None:
                        self.progress.state = self._final_state()
                    self._write()
        return self._final_state()

    def _final_state(self) -> State:
        """The state, with the schema by which rows were read."""
        assert self.progress.state is not None
        return self.progress.state._replace(schema=self.source.schema())

    def _is_over(self) -> bool:
        return self.progress.passes >= self.request.passes or self.progress.settled

    def _title(self) -> str:
        title, state = f"{self.options.name}, pass {self.progress.passes + 1}", self.progress.state
        if self.progress.passes and self.options.tol is not None and state is not None:
            return f"{title}, certified {text_down(certificate_of(state).ratio, 4)}"
        return title

    def _one_pass(self, advance: Advance) -> None:
        progress, done, began = self.progress, 0, time.perf_counter()
        first_row = progress.position
        with contextlib.closing(each for each in self.source.blocks(progress.position)) as blocks:
            for block in blocks:
                with uninterrupted():
                    self._learn(block)
                    progress.position = block.end
                    self.source.reach(block)
                    if self._checkpoint_is_due():
                        self._write()
                assert progress.state is not None
                rows, mistakes = block.end - first_row, progress.state.model.mistakes()
                rate = rows / max(time.perf_counter() - began, 1e-9)
                note = f"{block.end:,} rows, {rate:,.0f} rows/s, {mistakes:,} mistakes"
                advance((block.done - done) / MEGABYTE, note=note)
                done = block.done

    def _learn(self, block: streams.Block) -> None:
        assert block.y is not None
        progress, classes = self.progress, self.progress.classes
        where = f"{self.source.name}, in rows {progress.position:,} to {block.end - 1:,}"
        X, state = block.X, progress.state
        grow = self.request.grow if state is None else False
        if (strange := np.setdiff1d(block.y, classes)).size:
            if not (grow if state is None else state.unseen):
                raise (streams.Surprise if self.guessed else streams.StreamError)(
                    f"{where}: the labels {listed(strange)} are not among the classes "
                    f"{listed(classes)}; when learning starts, list all classes with classes=, or "
                    "pass grow=True to learn new labels as they occur."
                )
            grow, progress.classes = True, np.union1d(classes, strange)
        if state is not None and X.shape[1] > state.features.count:
            grow |= self._widen(X)
        progress.width, state = max(progress.width, X.shape[1]), progress.state
        if state is not None and sparse.issparse(X) and X.shape[1] < state.features.count:
            shape = (X.shape[0], state.features.count)
            X = sparse.csr_matrix((X.data, X.indices, X.indptr), shape=shape, copy=False)
        named = classes if state is None else None
        batch = Batch(X, block.y, named, block.weight, grow=grow)
        try:
            progress.state = self.trainer.learn(state, batch, owned=True).state
        except ValueError as error:
            raise streams.StreamError(f"{where}: {error}") from error

    def _widen(self, X: Matrix) -> bool:
        """Accept wider rows; True if the model has to grow when it learns from them.

        If unused columns make no difference, their number is doubled, to resize rarely.
        """
        state, width = self.progress.state, X.shape[1]
        assert state is not None
        if sparse.issparse(X) and takes_unused_columns(state, 2 * width):
            self.progress.state = _resized(state, 2 * width)
            return False
        if self.source.repeatable and not self.surveyed:
            raise streams.Surprise(f"{self.source.name}: rows have become wider.")
        if not self.trainer.can_grow:
            raise streams.StreamError(
                f"{self.source.name}: rows have become wider, and {self.options.name} must know "
                "the number of columns from the start."
            )
        return True

    def _drop_unused_columns(self) -> None:
        """Drop columns beyond the last one that occurred."""
        state, width = self.progress.state, self.progress.width
        if state is not None and 0 < width < state.features.count:
            self.progress.state = _resized(state, width)

    def _has_settled(self) -> bool:
        """True if the pass just made shows convergence."""
        state = self.progress.state
        if self.progress.position == 0 or state is None:
            raise streams.StreamError(f"{self.source.name}: there are no rows.")
        settled = self.options.settles and state.model.updates() == self.progress.updates
        if self.options.tol is not None:
            self.progress.state = state = measured(state, self.source)
            ratio = certificate_of(state).ratio
            settled |= ratio > 0.0 and ratio >= 1.0 - self.options.tol
        return bool(settled)

    def _end_pass(self, settled: bool) -> None:
        progress, state = self.progress, self.progress.state
        assert state is not None
        progress.passes += 1
        progress.settled = settled
        progress.updates = state.model.updates()
        self._written_row -= progress.position  # rows of several passes count together
        progress.position = 0
        progress.state = state._replace(n_iter=progress.passes, converged=settled)

    def _checkpoint_is_due(self) -> bool:
        if self.file is None:
            return False
        if self.request.every is None:
            return time.monotonic() - self._written_at >= SECONDS_BETWEEN_CHECKPOINTS
        return self.progress.position - self._written_row >= self.request.every

    def _write(self) -> None:
        if self.file is not None:
            progress = self.progress
            progress.schema = self.source.schema()
            self.file.write(progress.content(), progress.place())
            self._written_at, self._written_row = time.monotonic(), progress.position


def _resized(state: State, width: int) -> State:
    features = state.features._replace(count=width)
    return grown(state, width, state.classes)._replace(features=features)


def measured(state: State, source: streams.Source) -> State:
    """The state with margins measured by one more pass over the rows of positive weight."""
    model = online_model(state)
    lowest = np.full(model.n_margins(), np.inf)
    for block in source.blocks():
        assert block.y is not None
        X, y = block.X, block.y
        if block.weight is not None and not block.weight.all():
            X, y = X[block.weight > 0.0], y[block.weight > 0.0]
            if y.size == 0:
                continue
        codes = class_codes(y, state.classes)
        targets = as_targets(codes, state.classes.size, state.unseen)
        lowest = np.minimum(lowest, model.margins(model.rows(X), targets))
    return state._replace(margins=lowest, measured=model.trials())


def _check_passes(trainer: Trainer, source: streams.Source, passes: int) -> None:
    """Raise if rows have to be read again and cannot be."""
    options = trainer.options
    rereads = passes > 1 or options.tol is not None
    if rereads and not source.repeatable:
        raise ValueError(
            f"More than one pass, and tol, need a source that can be read again; {source.name} "
            "cannot."
        )
    if rereads and options.soft_margin > 0.0:
        raise ValueError(
            "soft_margin > 0 gives each row a coordinate of its own, which would have to be kept "
            "between passes: use passes=1 and tol=None, or fit."
        )
    if options.tol is None:
        return
    if isinstance(trainer.spec, ExpansionSpec | BudgetSpec):
        raise ValueError(
            "tol with a kernel, or on a budget, needs all rows at once: use fit, or tol=None."
        )


def _check_same_columns(before: State, source: streams.Source) -> None:
    """Raise unless the source reads rows as the learner has learned them."""
    recipe, schema = before.recipe, source.schema()
    ours = schema.get(RECIPE)
    if (recipe is None) is not (ours is None) or not (recipe is None or recipe.same_as(ours)):
        raise ValueError(
            f"{source.name} was opened with another recipe than that of the learner, which goes on "
            "with what it has learned: pass the file or the rows, open them with "
            "recipe=clf.recipe_, or start from scratch with sklearn.base.clone(clf)."
        )
    then = before.schema or {}
    are_tables = then.get("format") == schema["format"] == "table"
    if are_tables and then["columns"] != schema["columns"]:
        read, learned = (listed(np.array(each["columns"])) for each in (schema, then))
        raise ValueError(
            f"{source.name} was opened with the columns {read}, and the learner has learned "
            f"{learned}: pass the file or the rows, and columns are matched by their names."
        )


def _check_classes(classes: np.ndarray, source: streams.Source) -> None:
    if classes.size == 0:
        raise streams.StreamError(f"{source.name}: there are no rows.")
    if classes.size == 1:
        only_one = f"{source.name} has only one class, {classes.tolist()}"
        if source.repeatable:
            raise ValueError(f"{only_one}.")
        raise ValueError(f"{only_one}, in its first block; list all classes with classes=.")
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise streams.StreamError(f"{source.name}: the labels contain NaN or infinity.")
