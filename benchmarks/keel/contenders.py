"""Classifiers with their default parameters, and fixed seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from maxmargin import MaxMargin

PACKAGES = ("catboost", "lightgbm", "xgboost")
PENALTIES = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.125, 0.5, 2.0, 8.0)  # gamma times the number of columns, which are standardized
FOLDS = 5


class Contender(NamedTuple):
    """``make()`` returns an estimator; columns are standardized for it if it needs that."""

    name: str
    make: Callable[[], Any]
    is_scaled: bool = False

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("MaxMargin")


class TunedSVC(ClassifierMixin, BaseEstimator):
    """`SVC`; C and gamma by a grid search.

    The sigmoids of its probabilities are fitted to scores of left-out folds with the chosen
    parameters, which costs as many fits as one point of the grid; `predict` is that of `SVC`.
    """

    def fit(self, X: np.ndarray, y: np.ndarray) -> TunedSVC:
        grid = {"C": PENALTIES, "gamma": [width / X.shape[1] for width in WIDTHS]}
        search = GridSearchCV(SVC(), grid, cv=FOLDS, refit=False).fit(X, y)
        best = SVC(**search.best_params_)
        self.calibrated_ = CalibratedClassifierCV(best, cv=FOLDS, ensemble=False).fit(X, y)
        self.classes_ = self.calibrated_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.calibrated_.calibrated_classifiers_[0].estimator.predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.calibrated_.predict_proba(X)


def trees_of_sklearn(name: str, **parameters: Any) -> Any:
    from sklearn import ensemble

    return getattr(ensemble, name)(random_state=0, **parameters)


def catboost(threads: int) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        random_seed=0, thread_count=threads, verbose=False, allow_writing_files=False
    )


def lightgbm(threads: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=0, n_jobs=threads, verbose=-1)


def xgboost(threads: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(random_state=0, n_jobs=threads)


def contenders(threads: int) -> list[Contender]:
    ours = partial(MaxMargin, soft_margin="auto", calibration="loo")
    forest = partial(trees_of_sklearn, n_jobs=threads)
    return [
        Contender("MaxMargin, automatic kernel", partial(ours, kernel="auto")),
        Contender("MaxMargin, rbf", partial(ours, kernel="rbf"), is_scaled=True),
        Contender("MaxMargin, linear", ours, is_scaled=True),
        Contender("MaxMargin, joint", partial(ours, multiclass="joint"), is_scaled=True),
        Contender("LogisticRegressionCV", LogisticRegressionCV, is_scaled=True),
        Contender("RandomForest", partial(forest, "RandomForestClassifier")),
        Contender("ExtraTrees", partial(forest, "ExtraTreesClassifier")),
        Contender("XGBoost", partial(xgboost, threads)),
        Contender("LightGBM", partial(lightgbm, threads)),
        Contender(
            "HistGradientBoosting", partial(trees_of_sklearn, "HistGradientBoostingClassifier")
        ),
        Contender("SVC, tuned", TunedSVC, is_scaled=True),
        Contender("CatBoost", partial(catboost, threads)),
    ]
