"""Rounds: a question to all shards, whose answers are merged in a tree.

Answers are pure functions of shard and question, and the tree depends only on the number of shards.
So the result does not depend on the number of workers, their order, or lost results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from maxmargin.distributed.shards import ShardError
from maxmargin.solvers.blas_threads import one_thread

FAN_IN = 8  # number of answers that are merged at once


class Question(Protocol):
    """A question to all shards, which can be pickled."""

    def answer(self, shard: Any) -> Any:
        """The answer of a shard."""

    def merged(self, answers: Sequence[Any]) -> Any:
        """The common answer of several shards, given in the order of their numbers."""


class Executor(Protocol):
    """Sends questions to shards, for which it may use handles such as futures."""

    def place(self, shards: Sequence[Any]) -> Sequence[Any]:
        """Handles of shards, perhaps on other machines."""

    def derive(self, function: Callable[..., Any], shards: Sequence[Any], *given: Any) -> Any:
        """Handles of ``function(shard, *given)``; those of the old shards are not used again."""

    def ask(self, question: Question, shards: Sequence[Any]) -> Any:
        """The answers of all shards, merged by `tree`; raises a `ShardError` if one fails."""


def answer(question: Question, shard: Any) -> Any:
    """The answer of a shard, computed by one thread; errors name the shard."""
    with one_thread:
        return derived(question.answer, shard)


def derived(function: Callable[..., Any], shard: Any, *given: Any) -> Any:
    """``function(shard, *given)``; errors name the shard."""
    try:
        return function(shard, *given)
    except ShardError:
        raise
    except Exception as error:
        raise ShardError.naming(shard.name, error) from error


def merged(question: Question, answers: Sequence[Any]) -> Any:
    return question.merged(answers)


def tree(answers: Sequence[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Merge neighbours, `FAN_IN` at a time, until one answer is left.

    ``merge`` may take and return futures.
    """
    left = list(answers)
    while True:
        left = [merge(left[k : k + FAN_IN]) for k in range(0, len(left), FAN_IN)]
        if len(left) == 1:
            return left[0]


class Plain:
    """Shards in this process, one after the other or in several threads."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def place(self, shards: Sequence[Any]) -> Sequence[Any]:
        return shards

    def derive(self, function: Callable[..., Any], shards: Sequence[Any], *given: Any) -> Any:
        return self._map(lambda shard: derived(function, shard, *given), shards)

    def ask(self, question: Question, shards: Sequence[Any]) -> Any:
        answers = self._map(lambda shard: answer(question, shard), shards)
        return tree(answers, lambda some: merged(question, some))

    def _map(self, function: Callable[[Any], Any], shards: Sequence[Any]) -> list[Any]:
        if self.n_jobs == 1:
            return [function(shard) for shard in shards]
        with ThreadPoolExecutor(self.n_jobs) as threads:
            return list(threads.map(function, shards))
