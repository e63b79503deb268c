"""Learners that are experts of a vote: which of them can be one model, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.experts import Bank
from maxmargin.models.spec import ModelSpec


class Group(NamedTuple):
    """Experts of one kind: one model has the problems of all."""

    spec: ModelSpec
    learners: list[Any]


def check_experts(learners: Sequence[Any], base: type) -> None:
    """Raise unless all are learners, derived from ``base``, whose outputs the loop sees."""
    the = "The 'learners' parameter of FixedShare"
    if not learners:
        raise ValueError(f"{the} must name at least one learner.")
    for k, learner in enumerate(learners):
        if not isinstance(learner, base):
            raise ValueError(
                f"{the} must be a list of learners of maxmargin that have a rule, but learners[{k}]"
                f" is {learner!r}."
            )
        learner.check_parameters()  # type: ignore[attr-defined]
        cannot = {
            "it has no partial_fit": not hasattr(learner, "partial_fit"),
            "it is a vote itself": hasattr(learner, "learners"),
            "its probabilities would be asked by nobody": learner.calibration is not None,  # type: ignore[attr-defined]
            "its class_weight would be ignored: set that of FixedShare": learner.class_weight  # type: ignore[attr-defined]
            is not None,
            "it predicts by averaged weights": getattr(learner, "average", False),
            "its soft margin gives each row a coordinate": learner.soft_margin > 0.0,  # type: ignore[attr-defined]
            "it sees no rows with kernel='precomputed'": learner.kernel == "precomputed",  # type: ignore[attr-defined]
        }
        for why in (why for why, holds in cannot.items() if holds):
            raise ValueError(f"{the} cannot hold learners[{k}], {learner!r}: {why}.")


def grouped(learners: Sequence[Any]) -> list[Group]:
    """Groups of learners of one class and with equal specifications, in order of appearance.

    Learners of several classes together, or from pairs of rows, stay alone.
    """
    groups: list[Group] = []
    for learner in learners:
        spec = learner._spec()
        alone = spec.multiclass != "ovr" or spec.has_pairs()
        spec = replace(spec, certified=alone)
        for k, (known, members) in enumerate(groups):
            if not alone and known == spec and type(members[0]) is type(learner):
                # What one of them needs, all must keep.
                smallest, lengths = min(known.smallest, spec.smallest), known.lengths | spec.lengths
                known = replace(known, smallest=smallest, lengths=lengths)
                groups[k] = Group(known, [*members, learner])
                break
        else:
            groups.append(Group(spec, [learner]))
    return groups


def rules_in(rules: Any) -> list[Any]:
    """The rules of a `Bank`, each as its numbers, or the only one."""
    return [tuple(line) for line in rules.table.tolist()] if isinstance(rules, Bank) else [rules]


def rules_of(group: Group, p: float) -> Any:
    """The rules of the experts of a group in that norm, or the rule of the only one."""
    rules = [learner._rule(p) for learner in group.learners]
    if len(rules) == 1:
        return rules[0]
    return Bank(rules[0], np.array(rules, dtype=np.float64), each=1)
