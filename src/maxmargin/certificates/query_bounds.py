"""Asking for labels near the margin: how many labels, and how many mistakes.

The rule of Cesa-Bianchi, Gentile and Zaniboni (2006): let ``f_t`` be the output for row t before it
is learned from, and ask for its label, independently of all before, with the probability

    p_t = b_t / (b_t + |f_t|)

where ``b_t >= 0`` may depend on anything that is known by then but the label of the row.

**Mistakes.** Let the learner be the Perceptron, ``w <- w + y_t x_t`` where ``y_t f_t <= 0`` and the
label was asked for, with rows of norm up to R and no ``b_t`` above b. Write ``M_t = 1`` if
``y_t f_t <= 0``, ``Z_t = 1`` if the label was asked for, ``l_t(u) = max(0, 1 - y_t u.x_t)`` for any
vector u, and ``a = b + R**2 / 2``. Then on every sequence of rows and labels

    sum M_t Z_t (b_t + |f_t|)  <=  a sum M_t Z_t l_t(u) + a**2 |u|**2 / 2.

Proof. Where ``M_t Z_t = 1``, ``|a u - w|**2`` falls in the step by

    2 a y_t u.x_t - 2 y_t f_t - |x_t|**2  >=  2 a (1 - l_t(u)) + 2 |f_t| - R**2
                                          >=  2 (b_t + |f_t|) - 2 a l_t(u)

since ``y_t f_t = -|f_t|``. It begins with ``a**2 |u|**2`` and ends above 0: sum up, and halve.

Given all before row t and its label, ``Z_t (b_t + |f_t|)`` has the expectation ``b_t``. So, with
``L = E sum M_t Z_t l_t(u)``,

    E sum b_t M_t  <=  a L + a**2 |u|**2 / 2

and if all ``b_t`` are b, the expected number of mistakes is at most (Theorem 1 of the paper)

    (1 + R**2 / (2 b)) L + (2 b + R**2)**2 |u|**2 / (8 b).

A higher probability than ``p_t`` does no harm. Several classes, each with weights of its own, of
which a step adds the row to those of the label and subtracts it from those of the highest rival:
there ``f_t`` is the lead of the prediction over the second class, no more than its lead over the
label, and the same holds with ``2 R**2`` in place of ``R**2`` and the lead of the label in place of
``y_t u.x_t``.

**Labels.** A share of labels holds on every stream if ``b_t`` follows what was asked for. With so
many ``rows`` before the present one, of which ``queries`` were asked for,

    b_t = 0          (do not ask)  if  queries + 1 > share (rows + 1) + SLACK
    b_t = infinity   (ask)         if  queries     < share (rows + 1) - SLACK

and anything in between. Then ``|queries - share rows| <= SLACK`` after every row, since SLACK is at
least 1: by induction, a question cannot lead above, and a row without one not below.
"""

from __future__ import annotations

# Labels by which a stream may be ahead of its share, or behind it.
SLACK = 50


def query_mistakes_bound(losses: float, norm: float, radius: float, b: float) -> float:
    """Bound on the expected mistakes of a Perceptron that asks for labels with a fixed b."""
    squared = radius * radius
    first = (1.0 + squared / (2.0 * b)) * losses
    return first + (2.0 * b + squared) ** 2 * norm * norm / (8.0 * b)


def label_limits(rows: int, share: float) -> tuple[float, float]:
    """The fewest and the most labels that are asked for among so many rows."""
    return max(0.0, share * rows - SLACK), min(float(rows), share * rows + SLACK)
