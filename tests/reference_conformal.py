"""Conformal prediction sets, written down plainly."""

import numpy as np

RATES = 0.001 * 2.0 ** np.arange(8)
CORRECTION = 1.0 / 39.0
HORIZON = 500


def adaptive(scores, coverage, gamma):
    """Adaptive conformal inference (Gibbs and Candès 2021) on scores in [0, 1], one fixed rate.

    The threshold is ``1 - alpha_t``. Which rows were outside of their sets, and all alpha_t.
    """
    alpha = alpha_t = 1.0 - coverage
    outside, path = [], [alpha_t]
    for score in scores:
        full, empty = alpha_t < 0.0, alpha_t > 1.0
        missed = not full and (empty or score > 1.0 - alpha_t)
        alpha_t = alpha_t + gamma * (alpha - missed)
        outside.append(missed)
        path.append(alpha_t)
    return np.array(outside), np.array(path)


def several_rates(scores, coverage):
    """Thresholds that eight rates propose (Gibbs and Candès 2022), and a correction of fixed rate.

    Which rows were outside, the thresholds at which sets were made (below 0: empty), and alpha_t.
    """
    alpha = alpha_t = 1.0 - coverage
    thresholds, weights = np.full(RATES.size, coverage), np.full(RATES.size, 1.0 / RATES.size)
    spread = coverage**2 * alpha**3 + alpha**2 * coverage**3
    eta = np.sqrt(3.0 / HORIZON) * np.sqrt((np.log(HORIZON * RATES.size) + 2.0) / spread)
    outside, made, path = [], [], [alpha_t]
    for score in scores:
        proposal = np.clip(weights @ thresholds / weights.sum(), 0.0, 1.0)
        if alpha_t <= alpha:
            threshold = proposal + (1.0 - proposal) * ((alpha - alpha_t) / alpha) ** 4
        else:
            threshold = proposal - proposal * ((alpha_t - alpha) / coverage) ** 4
        threshold = 1.0 if alpha_t < 0.0 else -1.0 if alpha_t > 1.0 else threshold
        missed = score > threshold
        outside.append(missed)
        made.append(threshold)
        alpha_t = alpha_t + CORRECTION * (alpha - missed)
        path.append(alpha_t)
        losses = np.where(score > thresholds, coverage, -alpha) * (score - thresholds)
        weights = weights * np.exp(-eta * losses)
        weights = weights / weights.sum()
        weights = (1.0 - 0.5 / HORIZON) * weights + 0.5 / HORIZON / RATES.size
        thresholds = thresholds + RATES * ((score > thresholds) - alpha)
    return np.array(outside), np.array(made), np.array(path)


def scores_by_probabilities(probabilities):
    """Of each class: the mean of the mass of likelier classes and of the mass of all others."""
    scores = np.empty(len(probabilities))
    for c, own in enumerate(probabilities):
        likelier = sum(other for other in probabilities if other > own)
        scores[c] = 0.5 * (likelier + 1.0 - own)
    return scores


def scores_by_outputs(outputs, scale):
    """Of each class: its lead over the best of the others, where ``scale`` is a usual lead."""
    scores = np.empty(len(outputs))
    for c, own in enumerate(outputs):
        lead = own - max(np.delete(outputs, c))
        scores[c] = 0.5 - 0.5 * lead / (abs(lead) + scale) if lead else 0.5
    return scores
