"""Printed certificates are true: bounds are rounded up, margins and ratios down."""

import math
import re
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.certificates import Certificate
from maxmargin.certificates.coverage_bounds import Coverage
from maxmargin.certificates.directed_rounding import percent_down, text_down, text_up

NUMBER = r"(-?[\d.]+(?:e[+-]?\d+)?)"
positive = st.floats(1e-300, 1e300)


@given(st.floats(allow_nan=False), st.integers(1, 17))
def test_texts_enclose_the_number(value, digits):
    assert float(text_down(value, digits)) <= value <= float(text_up(value, digits))


@given(positive, st.integers(2, 17))
def test_texts_are_close(value, digits):
    apart = float(text_up(value, digits)) - float(text_down(value, digits))
    assert apart <= 2.0 * 10.0 ** (1 - digits) * value


def test_short_numbers_stay_as_they_are():
    for value in (0.98, 0.8, -0.25, 1e-7, 123456.0, 1e22, 0.0):
        assert float(text_up(value)) == value == float(text_down(value))


@given(positive, st.floats(0.0, 1.0, exclude_min=True))
def test_a_printed_certificate_is_proved(bound, share):
    certificate = Certificate(margin=share * bound, bound=bound)
    if certificate.margin <= 0.0:
        return
    margin, ratio, most = map(
        float,
        re.fullmatch(
            rf"margin {NUMBER}, certified to be at least {NUMBER} % of the best possible "
            rf"\(at most {NUMBER}\)",
            str(certificate),
        ).groups(),
    )
    assert margin <= certificate.margin
    assert most >= bound
    exact = Fraction(repr(certificate.margin)) / Fraction(repr(bound))
    assert Fraction(str(ratio)) <= 100 * exact
    assert ratio >= 100.0 * certificate.ratio - 0.0101


@given(st.floats(0.0, 1.0), st.floats(1e-9, 10.0), st.integers(1, 10**9))
def test_a_printed_coverage_is_proved(observed, bound, rows):
    text = str(Coverage(target=0.9, observed=observed, bound=bound, rows=rows, mean_size=1.5))
    parts = re.match(rf"coverage {NUMBER} of \d+ rows \(target 0.9, at most {NUMBER} away\)", text)
    assert float(parts[1]) <= observed
    assert float(parts[2]) >= bound


def test_percentages_of_numpys_floats():
    assert percent_down(np.float64(0.99999), 1.0) == "99.99"


@given(st.floats(-1e300, 0.0), positive)
def test_rows_that_are_not_separated(margin, bound):
    words = str(Certificate(margin, bound)).split()
    assert float(words[1].rstrip(",")) <= margin
    assert float(words[-1]) >= bound


def test_unknown_and_infinite_numbers():
    assert str(Certificate(math.nan, 0.51083031)).endswith("at most 0.510831")
    assert str(Certificate(0.51083039, math.inf)).startswith("margin 0.51083;")
