"""MLflow's flavour of scikit-learn logs learners, and loads them again."""

import numpy as np
import pytest
from persistence.states import X, known_to, two
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import Forgetron, MaxMargin
from maxmargin.persistence import TRUSTED_TYPES

pytest.importorskip("skops.io")
pytest.importorskip("sqlalchemy")  # of the whole mlflow, which logs to a database
mlflow = pytest.importorskip("mlflow")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.unseeded]  # names of runs


@pytest.fixture
def tracking(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield mlflow
    mlflow.set_tracking_uri(before)


def test_models_are_logged_and_loaded(tracking):
    alone = MaxMargin(calibration="loo").fit(X, two)
    piped = make_pipeline(StandardScaler(), Forgetron(gamma=0.5, random_state=0)).fit(X, two)
    for clf, learner in ((alone, alone), (piped, piped[-1])):
        with tracking.start_run():
            logged = tracking.sklearn.log_model(
                clf, name="model", skops_trusted_types=TRUSTED_TYPES
            )
        again = tracking.sklearn.load_model(logged.model_uri)
        assert known_to(again if clf is alone else again[-1]) == known_to(learner)
        served = tracking.pyfunc.load_model(logged.model_uri)
        assert np.array_equal(served.predict(X), clf.predict(X))
