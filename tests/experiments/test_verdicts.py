"""Verdicts on made-up numbers: they follow from tolerances, and a wrong number fails."""

from __future__ import annotations

import pytest
from experiments.made_up import EXPERIMENT

from maxmargin.experiments.experiment import (
    Claim,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Tolerance,
    at,
    measured,
)
from maxmargin.experiments.verdicts import FAILED, NOT_COMPARED, REPRODUCED, count, judge, shown


def results(*values, **more):
    return Results(
        [({"learner": "A", "seed": n}, {"error": v, **more}) for n, v in enumerate(values)]
    )


def line(tolerance, *values, text="1.00", scale="full", **more):
    printed = Printed("A", "error", text, measured("error", learner="A"), tolerance, "Table 1")
    changed = {**vars(EXPERIMENT), "compared": [printed]}
    (judged,) = judge(type(EXPERIMENT)(**changed), results(*values, **more), scale)
    return judged


@pytest.mark.parametrize(
    ("tolerance", "ours", "verdict"),
    [
        (Tolerance(0.1, "why"), 1.09, REPRODUCED),
        (Tolerance(0.1, "why"), 0.91, REPRODUCED),
        (Tolerance(0.1, "why"), 1.11, FAILED),
        (Tolerance(0.1, "why"), 0.89, FAILED),
        (Tolerance(0.1, "why"), -1.0, FAILED),
        (Tolerance(0.1, "why"), float("nan"), FAILED),
        (Tolerance(0.1, "why"), float("inf"), FAILED),
        (NoVerdict("why"), 1.0, NOT_COMPARED),
        (NoVerdict("why"), 7.0, NOT_COMPARED),
    ],
)
def test_verdict_follows_from_the_tolerance(tolerance, ours, verdict):
    assert line(tolerance, ours).verdict == verdict


def test_relative_tolerance_is_a_part_of_the_printed_number():
    tolerance = Tolerance(0.04, "why", relative=True)
    assert line(tolerance, 51.9, text="50.0").verdict == REPRODUCED
    assert line(tolerance, 52.1, text="50.0").verdict == FAILED
    assert line(tolerance, -0.529, text="-0.5").verdict == FAILED


def test_it_is_the_mean_that_is_compared():
    judged = line(Tolerance(0.1, "why"), 0.0, 2.0)
    assert (judged.verdict, judged.mean, judged.runs) == (REPRODUCED, 1.0, 2)
    assert judged.spread == pytest.approx(2.0**0.5)


def test_one_run_has_no_spread():
    assert line(Tolerance(0.1, "why"), 1.0).spread is None


def test_lines_say_why():
    judged = line(Tolerance(0.1, "few digits"), 1.0)
    assert (judged.tolerance, judged.why) == ("± 0.1", "few digits")
    assert line(Tolerance(0.04, "few digits", relative=True), 1.0).tolerance == "± 4 %"
    judged = line(NoVerdict("seconds"), 1.0)
    assert (judged.tolerance, judged.why) == ("", "seconds")


def test_what_was_not_run_is_not_compared():
    judged = line(Tolerance(0.1, "why"))
    assert (judged.verdict, judged.runs, judged.mean) == (NOT_COMPARED, 0, None)


def test_stand_ins_are_not_compared():
    assert line(Tolerance(0.1, "why"), 1.0, scale="tiny").verdict == NOT_COMPARED
    judged = line(Tolerance(0.1, "why"), 1.0, stand_in="generated rows")
    assert (judged.verdict, judged.why) == (NOT_COMPARED, "generated rows")


@pytest.mark.parametrize(("true", "verdict"), [(True, REPRODUCED), (False, FAILED)])
def test_claims(true, verdict):
    claim = Claim("A", "A is best", lambda results: (true, "1 against 2"), "Table 1")
    changed = {**vars(EXPERIMENT), "compared": [claim]}
    (judged,) = judge(type(EXPERIMENT)(**changed), results(1.0), "full")
    assert (judged.verdict, judged.ours) == (verdict, "1 against 2")


def test_counts():
    records = [(c, EXPERIMENT.measure(c, False, None)) for c in EXPERIMENT.cells("full")]
    lines = judge(EXPERIMENT, Results(records), "full")
    assert [each.verdict for each in lines] == [
        REPRODUCED,
        FAILED,  # 2.15 for 1.10
        REPRODUCED,
        NOT_COMPARED,
        REPRODUCED,
    ]
    total = count(lines)
    assert (total.reproduced, total.compared, total.all) == (3, 4, 5)
    assert str(count([*lines, *lines])) == "6 of 8"


def test_results_by_cell():
    found = results(1.0, 3.0, curve=[4.0, 2.0])
    assert found.values("error") == [1.0, 3.0]
    assert found.values("error", seed=1) == [3.0]
    assert found.mean("error", learner="A") == 2.0
    assert found.curve("curve") == [4.0, 2.0]
    assert at("curve", 1)(found) == [2.0, 2.0]
    with pytest.raises(NotMeasured):
        found.values("error", learner="B")
    with pytest.raises(NotMeasured):
        found.values("height")


def test_numbers_are_shown_with_the_printed_digits():
    assert shown(11922.4, 0) == "11\N{THIN SPACE}922"
    assert shown(0.9996, 2) == "1.00"
    assert shown(-1.5, 1) == "\N{MINUS SIGN}1.5"
