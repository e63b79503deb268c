"""A classifier of CapyMOA over the rows of a file: ``LEARNER ROWS.npz FOUND.npz``.

CapyMOA pins versions of NumPy and pandas and starts a Java machine, so it has an environment and a
process of its own. This script imports nothing of the project.
"""

import sys
import time

import capymoa.classifier
import numpy as np
from capymoa.stream import NumpyStream


def main() -> None:
    learner, rows, found = sys.argv[1:]
    with np.load(rows) as arrays:
        X, y = arrays["X"], arrays["y"]
    stream = NumpyStream(X, y, target_type="categorical")
    model = getattr(capymoa.classifier, learner)(schema=stream.get_schema())
    predicted, took = np.zeros(y.size, int), 0.0
    for i in range(y.size):
        instance = stream.next_instance()
        began = time.process_time()
        guess = model.predict(instance)
        model.train(instance)
        took += time.process_time() - began
        predicted[i] = 0 if guess is None else guess
    np.savez(found, predicted=predicted, seconds=took)


if __name__ == "__main__":
    main()
