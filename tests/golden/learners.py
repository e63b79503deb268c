"""What learners of all kinds know, down to the bit, as hashes in a file.

``golden.json`` says what every state of `persistence.states` holds after `fit` and `partial_fit`,
and what it predicts. A change of the code that changes a bit of any learner shows here::

    python -m golden.learners          # from tests/: compare
    python -m golden.learners --write  # ... or replace, where a change is meant

Matrix products, exponentials and powers round differently on other processors. So the file also has
a hash of some of each, and what is made of them is compared only where that one is the same.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from persistence.states import X, known_to, states
from scipy import sparse

PATH = Path(__file__).with_name("golden.json")


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def of_this_machine() -> str:
    """How this processor rounds what is left to libraries."""
    random = np.random.default_rng(0)
    A, B = random.normal(size=(2, 67, 53))
    values = [A @ B.T, A.astype(np.float32) @ B.T.astype(np.float32)]
    values += [A[:5] @ B[:1].T, np.exp(A), np.exp(A.astype(np.float32)), np.abs(A) ** 1.7]
    values += [sparse.csr_matrix(A) @ B.T, A.sum(axis=1), np.linalg.norm(A, axis=1)]
    return digest([known_to(each) for each in values])


def public_state(clf: Any) -> dict[str, Any]:
    """Everything that users can see of what was learned."""
    names = ["classes_", "n_features_in_", "n_iter_", "n_updates_", "n_mistakes_", "converged_"]
    names += ["coef_", "intercept_", "support_", "support_vectors_", "dual_coef_", "rounds_"]
    names += ["components_", "means_", "variances_", "weights_", "rho_", "n_margin_errors_"]
    state = {name: known_to(getattr(clf, name)) for name in names if hasattr(clf, name)}
    certificate = getattr(clf, "certificate_", None)
    if certificate is not None:
        each = [certificate, *certificate.classes]
        state["certificate_"] = [(one.margin.hex(), one.bound.hex()) for one in each]
    return state


def learned_arrays(clf: Any) -> list[Any]:
    """All arrays behind it that are not all zero, whatever they are called and wherever they are.

    Room for intermediate results is left out.
    """
    found: dict[int, Any] = {}

    def walk(name: str, value: Any) -> None:
        if name in SCRATCH or id(value) in found:
            return
        if isinstance(value, np.ndarray):
            if value.dtype != object and (content := value.tobytes()).strip(b"\0"):
                found[id(value)] = (value.shape, content)
        elif sparse.issparse(value):
            found[id(value)] = (value.shape, *(a.tobytes() for a in (value.data, value.indices)))
        elif isinstance(value, dict):
            for key, each in value.items():
                walk(str(key), each)
        elif isinstance(value, tuple) and hasattr(value, "_asdict"):
            walk("", value._asdict())
        elif isinstance(value, list | tuple):
            for each in value:
                walk("", each)
        elif type(value).__module__.startswith("maxmargin") and hasattr(value, "__dict__"):
            walk("", vars(value))

    walk("", vars(clf))
    return sorted(map(digest, found.values()))


# Room for intermediate results, and what can be computed from the rest.
SCRATCH = {
    "_one_row",
    "_trainer",
    "_together",
    "cross",
    "coords",
    "shadows",
    "fresh",
    "turned",
    "_bounds",
}
SCRATCH |= {"rivals", "logs", "row", "distances", "outputs", "stamps", "serial", "z", "t"}
SCRATCH |= {"refilled", "sources", "buffer", "difference", "distance", "limit", "joins", "classes"}
SCRATCH |= {"names", "schema", "margins"}
SCRATCH |= {"scratch"}


def rows_for(clf: Any) -> Any:
    return X @ X.T if getattr(clf, "kernel", "") == "precomputed" else X


def facts_of(clf: Any) -> dict[str, str]:
    facts = {"public": digest(public_state(clf)), "arrays": digest(learned_arrays(clf))}
    rows = rows_for(clf)
    facts["predictions"] = digest(known_to(clf.predict(rows)))
    facts["scores"] = digest(known_to(clf.decision_function(rows)))
    return facts


def is_exact(name: str) -> bool:
    """Is this state free of library functions that round differently elsewhere?"""
    words = (
        "kernel",
        "rbf",
        "poly",
        "precomputed",
        "budget",
        "oldest",
        "random",
        "project",
        "p-norm",
    )
    learners = "Forgetron", "Projectron", "RandomBudget", "NOCA", "AutoMargin", "FTRL"
    return not any(word in name for word in (*words, *learners))


def golden(wide: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, make, go_on in states(wide):
        if name.startswith("MaxMargin"):  # its bits are those of LAPACK
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = make()
            found[name] = {}
            if not name.endswith(" new"):
                found[name]["learned"] = facts_of(clf)
            found[name]["gone on"] = facts_of(go_on(clf))
    return found


class Comparison(NamedTuple):
    """What is not as in the file, and how many facts this processor cannot compare."""

    different: list[str]
    not_compared: int


def compare(found: dict[str, Any], wide: bool = True) -> Comparison:
    """Compare with the file; all that it has must be found if ``wide``."""
    file = json.loads(PATH.read_text())
    same_machine = file["machine"] == of_this_machine()
    different, not_compared = [], 0
    for name in sorted(found.keys() | (file["states"].keys() if wide else set())):
        for stage, facts in file["states"].get(name, {}).items():
            for kind, expected in facts.items():
                if not (same_machine or (kind in ("arrays", "predictions") and is_exact(name))):
                    not_compared += 1
                elif found.get(name, {}).get(stage, {}).get(kind) != expected:
                    different.append(f"{name}, {stage}: {kind}")
        if name not in file["states"]:
            different.append(f"{name} is new")
    return Comparison(different, not_compared)


if __name__ == "__main__":
    if "--write" in sys.argv:
        content = {"machine": of_this_machine(), "states": golden()}
        PATH.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")
    else:
        different, not_compared = compare(golden())
        print("\n".join(different) or "as in the file")
        if not_compared:
            print(f"{not_compared} facts not compared: this processor rounds differently")
