"""Verdicts on made-up numbers: they follow from tolerances, and a wrong number fails."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from papers.made_up import EXPERIMENT

from maxmargin_papers.reproduction.experiment import (
    BY_CHANCE,
    EXACT,
    Claim,
    NotComparable,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Tolerance,
    at,
    measured,
)
from maxmargin_papers.reproduction.significance import alike, all_hold, always, less
from maxmargin_papers.reproduction.verdicts import (
    FAILED,
    NOT_COMPARABLE,
    NOT_COMPARED,
    REPRODUCED,
    UNDECIDED,
    chance,
    judge,
    judge_again,
    score,
)

PART = Tolerance("why", by_chance=False, part=0.1)


def results(*values, **more):
    return Results(
        [({"learner": "A", "seed": n}, {"error": v, **more}) for n, v in enumerate(values)]
    )


def line(tolerance, *values, text="1.00", deviation="", scale="full", **more):
    ours = measured("error", learner="A")
    printed = Printed("A", "error", text, ours, tolerance, "Table 1", deviation=deviation)
    changed = {**vars(EXPERIMENT), "compared": [printed]}
    (judged,) = judge(type(EXPERIMENT)(**changed), results(*values, **more), scale)
    return judged


@pytest.mark.parametrize(
    ("tolerance", "ours", "verdict"),
    [
        (PART, 1.104, REPRODUCED),  # a tenth of it, and half the last digit
        (PART, 0.896, REPRODUCED),
        (PART, 1.106, FAILED),
        (PART, 0.894, FAILED),
        (PART, -1.0, FAILED),
        (PART, float("nan"), FAILED),
        (PART, float("inf"), FAILED),
        (EXACT, 1.0049, REPRODUCED),
        (EXACT, 1.0051, FAILED),
        (NoVerdict("why"), 1.0, NOT_COMPARED),
        (NoVerdict("why"), 7.0, NOT_COMPARED),
        (NotComparable("why"), 1.0, NOT_COMPARABLE),
    ],
)
def test_verdict_follows_from_the_tolerance(tolerance, ours, verdict):
    assert line(tolerance, ours).verdict == verdict


def test_tolerance_follows_from_spread_and_print():
    """2.776 is Student's t for five runs; the paper made four, which differ as ours do."""
    values = [0.98, 0.99, 1.0, 1.01, 1.02]
    allowed = 0.005 + 2.776 * np.std(values, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    for sign in (-1.0, 1.0):
        for part, verdict in ((0.99, REPRODUCED), (1.01, FAILED)):
            shift = sign * part * allowed
            judged = line(BY_CHANCE, *(value + shift for value in values))
            assert judged.verdict == verdict
            assert judged.tolerance == f"± {allowed:.2g}"


def test_a_printed_deviation_is_that_of_the_papers_runs():
    values = [0.98, 0.99, 1.0, 1.01, 1.02]
    ours, theirs = np.std(values, ddof=1) / np.sqrt(5), 0.04 / np.sqrt(4)
    judged = line(BY_CHANCE, *values, deviation="0.04")
    assert judged.tolerance == f"± {0.005 + 2.776 * np.hypot(ours, theirs):.2g}"


@pytest.mark.parametrize("values", [[1.0], [7.0], [0.9, 1.1], [0.8, 1.1, 1.1]])
def test_undecided_where_runs_do_not_suffice(values):
    """One run has no spread; and by chance the others could be almost anything."""
    assert line(BY_CHANCE, *values).verdict == UNDECIDED


def test_it_is_the_mean_that_is_compared():
    judged = line(PART, 0.0, 2.0)
    assert (judged.verdict, judged.mean, judged.runs) == (REPRODUCED, 1.0, 2)
    assert judged.spread == pytest.approx(2.0**0.5)


def test_lines_say_why():
    assert line(PART, 12345.0, text="12345").tolerance == "± 1\N{THIN SPACE}235 (10 %)"
    judged = line(PART, 1.0)
    assert (judged.tolerance, judged.why) == ("± 0.11 (10 %)", "why")
    judged = line(NoVerdict("seconds"), 1.0)
    assert (judged.tolerance, judged.why) == ("", "seconds")


def test_what_was_not_run_is_not_compared():
    judged = line(PART)
    assert (judged.verdict, judged.runs, judged.mean) == (NOT_COMPARED, 0, None)


def test_stand_ins_are_not_compared():
    assert line(PART, 1.0, scale="tiny").verdict == NOT_COMPARED
    judged = line(PART, 1.0, stand_in="generated rows")
    assert (judged.verdict, judged.why) == (NOT_COMPARED, "generated rows")
    assert (judged.paper, judged.ours) == ("", "1.00")


@pytest.mark.parametrize(
    ("true", "verdict"), [(True, REPRODUCED), (False, FAILED), (None, UNDECIDED)]
)
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
        UNDECIDED,
        REPRODUCED,
        NOT_COMPARABLE,
    ]
    total = score(lines)
    assert total.numbers == (1, 2, 0)
    assert total.claims == (1, 2, 1)
    assert total.theorems == (1, 1, 0)
    assert total.fitted == (1, 1, 0)
    assert (total.compared, total.undecided) == (6, 1)
    assert (total.not_comparable, total.not_compared) == (1, 1)
    decided = "2 of 4 printed numbers, 2 of 2 claims, 2 of 2 theorems, 2 of 2 fitted"
    assert str(score([*lines, *lines])) == f"{decided}; 2 undecided, 2 not comparable"
    assert str(score(lines[3:4])) == "nothing compared"
    assert str(score([lines[5]] * 6)) == "nothing decided; 6 undecided"


def test_whether_misses_are_chance():
    """Ten runs against the mean of four; all have one distribution, but for the last number."""
    random = np.random.default_rng(0)
    printed = [*(f"{each:.3f}" for each in random.normal(5.0, 0.1, size=200)), "9.000"]
    ours = random.normal(5.0, 0.2, size=(201, 10))
    lines = [line(BY_CHANCE, *each, text=text) for each, text in zip(ours, printed, strict=True)]
    found = chance([*lines, line(EXACT, 1.0)])
    assert (found.numbers, found.beyond) == (200, 1)
    assert found.missed == sum(each.verdict == FAILED for each in lines[:-1])
    assert found.mean_square == pytest.approx(np.mean([each.z**2 for each in lines[:-1]]))
    assert found.expected_square == pytest.approx(9 / 7)
    assert found.mean_square == pytest.approx(9 / 7, rel=0.2)
    assert str(found).startswith(
        f"Of 200 printed numbers whose tolerance is chance, {found.missed}"
    )
    assert "where 10.0 are expected at 95 %" in str(found)
    assert str(found).endswith("; 1 more is beyond any chance (|z| > 5).")
    assert chance([line(EXACT, 1.0), line(BY_CHANCE, 1.0)]) is None


def test_deviations_in_standard_errors():
    values = [0.98, 0.99, 1.0, 1.01, 1.02]
    judged = line(BY_CHANCE, *values, text="1.03")
    error = np.std(values, ddof=1) * np.sqrt(1 / 5 + 1 / 4)
    assert judged.z == pytest.approx(-0.03 / np.hypot(error, 0.01 / np.sqrt(12)))


@pytest.fixture
def judged():
    records = [(c, EXPERIMENT.measure(c, False, None)) for c in EXPERIMENT.cells("full")]
    return judge(EXPERIMENT, Results(records), "full")


def test_lines_without_their_cells_are_judged_in_the_same_way(judged):
    assert judge_again(EXPERIMENT, judged, "full", None) == judged
    tiny = judge_again(EXPERIMENT, judged, "tiny", None)
    assert {line.verdict for line in tiny} == {NOT_COMPARED}
    assert judge_again(EXPERIMENT, tiny, "tiny", None) == tiny


def test_lines_without_their_cells_follow_the_experiment_as_it_is(judged):
    first, second, *others = EXPERIMENT.compared
    stricter = [replace(first, tolerance=EXACT), replace(second, tolerance=NotComparable("why"))]
    stricter += [replace(others[-2], no_verdict=NotComparable("why")), replace(first, row="new")]
    changed = replace(EXPERIMENT, compared=stricter)
    lines = judge_again(changed, judged, "full", None)
    assert [line.verdict for line in lines] == [
        FAILED,
        NOT_COMPARABLE,
        NOT_COMPARABLE,
        NOT_COMPARED,
    ]
    assert [line.runs for line in lines] == [4, 4, 8, 0]


def test_what_chance_can_do():
    """Twenty runs that differ by 1: a difference of their means by 0.1 is chance, one by 2 not."""
    random = np.random.default_rng(0)
    ours = random.normal(size=20)
    for gap, answer in ((-2.0, False), (0.1, None), (2.0, True)):
        theirs = ours + random.normal(gap, 1.0, size=20)
        assert less(ours, theirs) is answer
        assert less(theirs, ours) is (None if answer is None else not answer)
    assert less([1.0], [9.0]) is None
    assert less([1.0, 1.0], [1.5, 1.5, -7.0]) is True


def test_what_is_alike_differs_less_than_single_runs():
    assert alike([1.0, 3.0], [1.5, 3.5]) is True
    assert alike([1.0, 1.1], [3.0, 3.1]) is False
    assert alike([1.0], [1.0]) is None


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [([True, True], True), ([True], None), ([False], False), ([True, False], False)],
)
def test_one_run_can_contradict_but_not_confirm(answers, verdict):
    assert always(answers) is verdict


@pytest.mark.parametrize(
    ("answers", "together"),
    [([True, True], True), ([True, None], None), ([None, False, True], False), ([], True)],
)
def test_all_hold(answers, together):
    assert all_hold(answers) is together


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
