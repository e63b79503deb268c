"""Every number in a text is what Python's ``float`` makes of it, to the bit."""

import io
import struct
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import streams


def read(numbers):
    """The bits of each number, as the value of a column and as a label."""
    text = "".join(f"{number} 0:{number}\n" for number in numbers).encode()
    source = streams.open(io.BytesIO(text), zero_based=True)
    blocks = list(source.blocks())
    values = np.concatenate([block.X.data for block in blocks])
    labels = np.concatenate([block.y for block in blocks])
    return values.view(np.int64).tolist(), labels.view(np.int64).tolist()


def bits_of(number):
    return struct.unpack("<q", struct.pack("<d", float(number)))[0]


def check(numbers):
    numbers = [number for number in numbers if np.isfinite(float(number))]
    if not numbers:
        return
    values, labels = read(numbers)
    expected = [bits_of(number) for number in numbers]
    wrong = [n for n, value, right in zip(numbers, values, expected, strict=True) if value != right]
    assert not wrong
    assert labels == expected


DIGITS = st.text("0123456789", min_size=1, max_size=40)
SIGNS = st.sampled_from(["", "+", "-"])
EXPONENTS = st.one_of(
    st.just(""),
    st.builds("{}{}{}".format, st.sampled_from("eE"), SIGNS, st.integers(0, 400)),
    st.builds("e{}{:05d}".format, SIGNS, st.integers(0, 30)),
)
POINTS = st.one_of(
    DIGITS,
    st.builds("{}.{}".format, DIGITS, DIGITS),
    st.builds(".{}".format, DIGITS),
    st.builds("{}.".format, DIGITS),
    st.builds("{}.{}{}".format, st.just("0"), st.integers(1, 60).map("0".__mul__), DIGITS),
    st.builds("{}{}".format, DIGITS, st.integers(1, 60).map("0".__mul__)),
)
DECIMALS = st.builds("{}{}{}".format, SIGNS, POINTS, EXPONENTS)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40, deadline=None)
@given(st.lists(FINITE, min_size=1, max_size=200))
def test_what_repr_writes(numbers):
    check([repr(number) for number in numbers])


@settings(max_examples=150, deadline=None)
@given(st.lists(DECIMALS, min_size=1, max_size=200))
def test_decimals_of_any_form(numbers):
    check(numbers)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(FINITE, st.integers(1, 25)), min_size=1, max_size=100))
def test_any_number_of_digits(numbers):
    check([f"{number:.{digits}e}" for number, digits in numbers])
    check([f"{number:.{digits}g}" for number, digits in numbers])


def test_random_bits_and_digits():
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    check([repr(number) for number in numbers.tolist()])
    check([f"{number:.18e}" for number in numbers.tolist()])
    digits, powers = (
        rng.integers(1, 10**19, 20_000, dtype=np.uint64),
        rng.integers(-345, 310, 20_000),
    )
    check([f"{w}e{q}" for w, q in zip(digits.tolist(), powers.tolist(), strict=True)])


def neighbourhood(exact):
    """An exact decimal, and others around it that differ late or never."""
    text = format(Decimal(exact.numerator) / Decimal(exact.denominator), "e")
    mantissa, exponent = text.split("e")
    point = "" if "." in mantissa else "."
    return [
        f"{mantissa}e{exponent}",
        f"{mantissa}{point}0000000000e{exponent}",
        f"{mantissa}{point}0000000001e{exponent}",
        *(f"{mantissa[:cut]}e{exponent}" for cut in range(16, 23)),
    ]


def test_half_way_between_two_numbers(exact_decimals):
    rng = np.random.default_rng(1)
    lower = np.abs(rng.integers(0, 2**64, 300, dtype=np.uint64).view(np.float64))
    near = 2.0 ** rng.integers(-80, 120, 300) * rng.uniform(1, 2, 300)
    subnormal = rng.integers(1, 2**52, 50, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate([lower[np.isfinite(lower) & (lower < 1e308)], near, subnormal])
    for number in numbers.tolist():
        half_way = (Fraction(number) + Fraction(float(np.nextafter(number, np.inf)))) / 2
        check(neighbourhood(half_way))


def test_powers_of_two_and_half_a_unit_around_them(exact_decimals):
    for power in range(-1074, 1024, 7):
        two = Fraction(2) ** power
        for shift in (0, Fraction(1, 2**53), Fraction(-1, 2**54), Fraction(-1, 2**53)):
            check(neighbourhood(two * (1 + shift)))


@pytest.fixture
def exact_decimals():
    """Room for all digits of any number in double precision."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 2000, 10**6, -(10**6)
        yield


LARGEST = 2**1024 - 2**971
# From here on numbers are rounded to infinity.
TOO_LARGE = 2**1024 - 2**970

HARD = [
    *("0", "-0", "+0", "0.0", "-0.0e5", "0e999", "-0e-999", "00000", ".0", "0.", "000.000e000"),
    *("9007199254740991", "9007199254740992", "9007199254740993", "9007199254740994"),
    *("9007199254740993.0", "9007199254740993.000000000000000000000000000000000001"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615"),
    *("18446744073709551616", "9999999999999999999", "99999999999999999999"),
    *("1e22", "1e23", "1e-22", "1e-23", "8.41e21", "9.5e22", "123456789012345678e-5"),
    *("8.5e22", "4503599627370496.5", "4503599627370497.5", "4503599627475353.5"),
    "0.500000000000000166533453693773481063544750213623046875",
    "0.500000000000000166533453693773481063544750213623046876",
    *("2.2250738585072011e-308", "2.2250738585072012e-308", "2.2250738585072014e-308"),
    *("2.225073858507201e-308", "5e-324", "4.9406564584124654e-324", "3e-324"),
    *("2.4703282292062327e-324", "2.4703282292062328e-324", "2.47e-324", "1e-400", "1e-1000000"),
    *("1e-99999999999999999999", "1e-2147483649", "1e-9223372036854775809"),
    *("1.7976931348623157e308", "1.7976931348623158e308", "17976931348623157e292"),
    *(str(LARGEST), f"{LARGEST}.000", str(TOO_LARGE - 1), "1.7976931348623158079e308"),
    *("6.631236846766476e-316", "3.2378839133029012895883524125015321748630376694231e-319"),
    *("1.00000000000000011102230246251565404236316680908203125", "1e0000000000000000000005"),
    *("1.00000000000000011102230246251565404236316680908203124", "1E+5", "1E-5", "+1e+5"),
    *("1.00000000000000011102230246251565404236316680908203126", "-.5", "+.5e1", "5.e1"),
    *(
        "7.2057594037927933e+16",
        "1.448997445238699",
        "6929495644600919.5",
        "3.7455744005952583e+15",
    ),
    *("0." + "0" * 400 + "1e401", "1" + "0" * 400 + "e-400", "0" * 500 + "1.5"),
    *("1" * 800 + "e-600", "9" * 5000 + "e-5000", "0." + "3" * 5000),
]


def test_hard_numbers():
    assert all(np.isfinite(float(number)) for number in HARD)
    check(HARD)


NO_NUMBERS = [
    *(
        "inf",
        "-inf",
        "Infinity",
        "nan",
        "NaN",
        "+nan",
        "1_000",
        "1_0.5",
        "0x10",
        "0x1p3",
        "1e",
        "1e+",
    ),
    *(
        "1e-",
        "e5",
        ".e5",
        "-",
        "+",
        ".",
        "-.",
        "+-1",
        "--1",
        "1.2.3",
        "1..2",
        "1-2",
        "1e5.5",
        "1e5e5",
    ),
    *("1,5", "1d5", "1f", "1.0f", "1e5-", "½", "١", "1\x00", "\x001", "1\x0b", "(1)", "'1'", "1%"),
]
BEYOND = [
    *(
        "1e309",
        "1e999",
        "-1e999",
        "1.7976931348623159e308",
        "1e310",
        "2e308",
        "1e9999999999999999999",
    ),
    *("1" * 310, str(TOO_LARGE), str(TOO_LARGE + 1), f"-{TOO_LARGE}.5", f"{TOO_LARGE}" + "0.0e-1"),
    *("1.7976931348623158079372897140531e308", "1e2147483648", "1e9223372036854775808"),
]


@pytest.mark.parametrize("number", NO_NUMBERS, ids=ascii)
def test_what_is_no_number_is_refused(number):
    with pytest.raises(streams.StreamError, match="line 1, column 5: expected a number after"):
        list(streams.open(io.BytesIO(f"1 1:{number}\n".encode())).blocks())
    with pytest.raises(streams.StreamError, match="line 1, column 1: expected a label"):
        list(streams.open(io.BytesIO(f"{number} 1:1\n".encode())).blocks())


@pytest.mark.parametrize("number", BEYOND, ids=lambda number: number[:40])
def test_numbers_beyond_the_largest_are_refused(number):
    assert np.isinf(float(number))
    with pytest.raises(streams.StreamError, match="line 1, column 5: the value is too large"):
        list(streams.open(io.BytesIO(f"1 1:{number}\n".encode())).blocks())
    with pytest.raises(streams.StreamError, match="line 1, column 1: the label is too large"):
        list(streams.open(io.BytesIO(f"{number} 1:1\n".encode())).blocks())


def test_numbers_beyond_the_largest_are_skipped():
    text = "".join(f"1 1:{number} 2:1\n{number}\n2 2:0.5\n" for number in BEYOND).encode()
    source = streams.open(io.BytesIO(text), on_error="skip")
    (block,) = source.blocks()
    assert block.y.tolist() == [2.0] * len(BEYOND)
    assert block.X.toarray().tolist() == [[0.0, 0.5]] * len(BEYOND)
    assert source.skipped == 2 * len(BEYOND)
