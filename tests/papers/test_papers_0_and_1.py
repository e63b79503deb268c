"""The experiments on PUMMA and AMIRA: which learners they run, in which order, and their claims."""

from __future__ import annotations

import os

import numpy as np
import pytest
from extent import everything_or
from sklearn.datasets import load_digits

from maxmargin import AMIRA, Perceptron
from maxmargin_papers.experiments import (
    amira_figure3,
    amira_table2,
    amira_table3,
    pumma_figure3,
    pumma_table1,
)
from maxmargin_papers.experiments.training_passes import (
    fit_until_converged,
    fit_until_stopped,
    passes_in_order,
    shuffled_passes,
)
from maxmargin_papers.reproduction import find
from maxmargin_papers.reproduction.experiment import (
    Claim,
    NoVerdict,
    Printed,
    Results,
)
from maxmargin_papers.reproduction.verdicts import (
    FAILED,
    NOT_COMPARABLE,
    NOT_COMPARED,
    REPRODUCED,
    UNDECIDED,
    judge,
)


# --------------------------------------------------------------------------------- the two tables
def test_the_lines_k_best_are_compared_with_both_readings():
    """What is taken for its updates is fitted, and so is a lost parameter."""
    lines = [one for one in find("amira-table2").compared if isinstance(one, Printed)]
    for name in ("MIRA", "AMIRA(0.85)", "AMIRA(0.5)"):
        one, all_of_them = (
            [each for each in lines if each.row == f"{k}-best {name}"] for k in ("1", "k")
        )
        assert [each.text for each in one] == [each.text for each in all_of_them]
        assert not any(isinstance(each.tolerance, NoVerdict) for each in (*one, *all_of_them))
        assert {each.kind for each in one} == {"fitted"}
        assert {each.kind for each in all_of_them} == {"fitted" if "0.5" in name else "strict"}
        assert [each.note for each in all_of_them[:-1]] == [""] * 3
        assert "label is wrong" in all_of_them[-1].note
    learner = amira_table2.learner("1-best AMIRA(0.85)")
    assert isinstance(learner, AMIRA)
    assert (learner.epsilon, learner.multiclass) == (0.85, "1-best")
    assert amira_table2.learner("k-best MIRA").multiclass == "k-best"
    assert amira_table2.learner("bin AMIRA(0.9)").multiclass == "ovr"


@pytest.mark.skipif("MAXMARGIN_DATA" not in os.environ, reason="MAXMARGIN_DATA names no folder")
@pytest.mark.parametrize(
    ("name", "printed"),
    [("1-best AMIRA(0.85)", 2585), *everything_or([], [("k-best AMIRA(0.85)", None)])],
)
def test_the_printed_updates_are_those_of_1_best(name, printed):
    """On USPS; k-best makes about 2110."""
    updates = amira_table2.measure({"learner": name, "seed": 0}, False, None)["updates"]
    assert updates == pytest.approx(printed or 2110, rel=0.03)


@pytest.mark.parametrize("each", [False, True])
def test_orders_of_passes(each):
    """An integer gives all passes of a run one order, a RandomState gives each pass its own."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0, y[:300]
    mine, expected = (Perceptron(kernel="rbf", gamma=0.1, fit_intercept=False) for _ in range(2))
    random_state = np.random.RandomState(7) if each else 7
    assert list(shuffled_passes(mine, X, y, 3, random_state)) == [1, 2, 3]
    random = np.random.RandomState(7)
    orders = [shuffled(random if each else np.random.RandomState(7)) for _ in range(3)]
    assert np.array_equal(orders[0], orders[1]) is not each
    for order in orders:
        expected.partial_fit(X[order], y[order], classes=np.unique(y))
    assert mine.n_updates_ == expected.n_updates_
    np.testing.assert_allclose(mine.decision_function(X), expected.decision_function(X))


def shuffled(random):
    """300 rows in the order of a pass of `fit`."""
    rows = np.arange(300, dtype=np.int32)
    np.random.default_rng(random.randint(2**31 - 1)).shuffle(rows)
    return rows


def test_the_tables_shuffle_as_their_sections_say(monkeypatch):
    """Table 2 "at each training iteration", Table 3 "at each run"."""
    given = []

    def record(clf, data, passes, random_state):
        given.append(random_state)
        return {}

    for table in (amira_table2, amira_table3):
        monkeypatch.setattr(table, "errors_by_pass", record)
        table.measure({"learner": "Perceptron", "seed": 3}, True, None)
    assert isinstance(given[0], np.random.RandomState)
    assert given[1] == 3


def test_a_run_that_does_not_converge_is_an_error():
    """Else means over converged runs would have others in them."""
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([-1, 1, -1])
    with pytest.raises(RuntimeError, match=r"Perceptron\(.*\) did not converge in \d+ passes"):
        fit_until_converged(Perceptron(max_iter=20, random_state=0), X, y)
    with pytest.raises(RuntimeError, match="did not converge in 5 passes over 3 rows"):
        list(passes_in_order(Perceptron(), X, y, 5))
    assert not fit_until_stopped(Perceptron(max_iter=20, random_state=0), X, y).converged_
    assert fit_until_converged(Perceptron(random_state=0), X[:2], y[:2]).converged_


def digits(names, passes, errors=5.0, **others):
    """Five runs of each learner whose errors differ a little; of ``others`` in their own way."""
    shifts = np.linspace(-0.1, 0.1, 5)
    return Results(
        [
            (
                {"learner": name, "seed": seed},
                {"errors": [others.get(name, errors) + shifts[seed]] * passes, "updates": 100},
            )
            for name in names
            for seed in range(5)
        ]
    )


@pytest.mark.parametrize(("error", "verdict"), [(4.5, REPRODUCED), (5.0, UNDECIDED), (5.5, FAILED)])
def test_headlines_of_the_tables_can_fail(error, verdict):
    tables = ((amira_table2, amira_table2.LEARNERS, 5), (amira_table3, amira_table3.TABLE, 4))
    for table, names, passes in tables:
        results = digits(names, passes, **{"bin AMIRA(0.9)": error})
        lines = judge(table.EXPERIMENT, results, "full")
        (claim,) = (
            line for line in lines if line.row == "bin AMIRA(0.9)" and "lowest" in line.paper
        )
        assert claim.verdict == verdict
    results = digits(amira_table2.LEARNERS, 5, **{"k-best AMIRA(0.85)": error})
    lines = judge(amira_table2.EXPERIMENT, results, "full")
    (claim,) = (line for line in lines if "after one pass" in line.paper)
    assert claim.verdict == verdict


# --------------------------------------------------------------------------- PUMMA on real data
def sets(**margins):
    """Two data sets; seconds are 1, but ROMMA takes 2 and MICRA 0.5."""
    margins = {
        "SVM": 1.0,
        "PUMMA": 0.995,
        "ROMMA": 0.99,
        "MICRA": 0.95,
        "PUMMA(0.1)": 0.93,
    } | margins
    seconds = {"ROMMA": 2.0, "MICRA": 0.5}
    return Results(
        [
            (
                {"data": data, "learner": name},
                {"margin": margin, "seconds": seconds.get(name, 1.0)},
            )
            for data in ("ionosphere", "house-votes")
            for name, margin in margins.items()
        ]
    )


def test_pumma_against_the_others():
    claims = [one for one in pumma_table1.EXPERIMENT.compared if isinstance(one, Claim)]
    claims = claims[:7]
    assert [claim.holds(sets())[0] for claim in claims] == [True] * 7
    answers = [claim.holds(sets(PUMMA=0.92))[0] for claim in claims]
    assert answers == [False, True, False, True, True, True, False]
    lines = judge(pumma_table1.EXPERIMENT, Results([]), "full")
    assert {line.verdict for line in lines} == {NOT_COMPARED, NOT_COMPARABLE}


def test_what_is_known_of_the_other_learners_is_not_said_by_others():
    """SVM-light was not run, and MICRA's parameters are not known."""
    claims = [one for one in pumma_table1.EXPERIMENT.compared if isinstance(one, Claim)]
    without = [claim.row for claim in claims if claim.no_verdict]
    assert without == ["PUMMA against MICRA"] * 2 + ["SVM", "PUMMA with δ = 0.1 against SVM"]


def test_only_what_is_used_as_printed_is_not_fitted():
    numbers = [one for one in pumma_table1.EXPERIMENT.compared if isinstance(one, Printed)]
    strict = {one.row for one in numbers if one.kind == "strict" and "margin" in one.column}
    assert strict == {"adult-full"}


@pytest.mark.parametrize(("margin", "answer"), [(16.6, True), (16.4, False)])
def test_the_margins_of_micra_are_attainable(margin, answer):
    """16.51 and 10.04 are printed."""
    results = Results(
        [
            ({"data": data, "learner": name}, {"margin": each})
            for data, most in (("house-votes", margin), ("ionosphere", 10.2))
            for name, each in zip(pumma_table1.MICRAS, (most, 9.5, 9.0), strict=True)
        ]
    )
    assert pumma_table1.attainable(results)[0] is answer


@pytest.mark.parametrize(("fastest", "answer"), [("SVM", True), ("PUMMA", False)])
def test_the_svm_is_fastest_if_it_is_on_every_set(fastest, answer):
    seconds = {
        "ionosphere": {"SVM": 1.0, "PUMMA": 2.0, "ROMMA": 3.0},
        "adult-1k": {"SVM": 2.0, "PUMMA": 2.5, "ROMMA": 3.0, fastest: 1.0},
    }
    results = Results(
        [
            ({"data": data, "learner": name}, {"seconds": each})
            for data, times in seconds.items()
            for name, each in times.items()
        ]
    )
    assert pumma_table1.svm_is_fastest(results)[0] is answer


@pytest.mark.parametrize(
    ("romma", "answer"),
    [((40, 20, 10), True), ((20, 20, 20), None), ((20, 10, 40), False), ((10, 20, 40), False)],
)
def test_faster_especially_with_a_large_bias(romma, answer):
    """Updates of ROMMA at bias 15, 9 and 1, where PUMMA makes ten in each of five runs."""
    results = Results(
        [
            (
                {"p": "2", "r": r, "seed": seed},
                {
                    "PUMMA updates in all": 10,
                    "ROMMA updates in all": updates + (seed - 2) * (1 if r == 4 else -1),
                },
            )
            for r, updates in zip(pumma_figure3.BIAS, romma, strict=True)
            for seed in range(5)
        ]
    )
    assert pumma_figure3.especially_with_a_large_bias("2", "ROMMA").holds(results)[0] is answer


@pytest.mark.parametrize(("ratio", "verdict"), [(2.0, REPRODUCED), (1.0, UNDECIDED), (0.5, FAILED)])
def test_fewer_updates_than_romma(ratio, verdict):
    random, epsilons = np.random.default_rng(0), amira_figure3.EPSILONS
    results = Results(
        [
            (
                {"seed": seed},
                {
                    **{f"AMIRA({e:g}) updates": 100.0 + random.normal() for e in epsilons},
                    **{f"ROMMA({e:g}) updates": ratio * 100.0 + random.normal() for e in epsilons},
                },
            )
            for seed in range(5)
        ]
    )
    (line,) = (
        line for line in judge(amira_figure3.EXPERIMENT, results, "full") if line.row == "updates"
    )
    assert line.verdict == verdict


def shares(lead, free=0.0):
    """Five runs in which the share of AMIRA is 1 - epsilon and a lead, and a little more."""
    shifts = np.linspace(0.0, 0.01, 5)
    learners = {f"AMIRA({e:g})": 1.0 - e for e in amira_figure3.EPSILONS}
    learners[amira_figure3.FREE_BIAS] = 0.9 + free
    return Results(
        [
            (
                {"seed": seed},
                {f"{name} share": share + lead + shift for name, share in learners.items()},
            )
            for seed, shift in enumerate(shifts)
        ]
    )


@pytest.mark.parametrize(("lead", "answer"), [(0.001, True), (-0.001, False)])
def test_margins_of_at_least_what_epsilon_says(lead, answer):
    assert amira_figure3.as_large_as_epsilon_says(shares(lead))[0] is answer


def test_a_number_that_is_not_proved_to_be_a_misprint_is_compared():
    (last,) = (
        one
        for one in amira_table3.EXPERIMENT.compared
        if isinstance(one, Printed) and (one.row, one.column) == ("Perceptron", "error %, 4 passes")
    )
    assert last.kind == "strict"
    assert not isinstance(last.tolerance, NoVerdict)
