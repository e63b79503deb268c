"""What requests and answers look like, as schemas of JSON, and examples of them."""

from __future__ import annotations

from typing import Any

from maxmargin import ALGORITHMS

Json = dict[str, Any]

EVENT_ID = {"type": "string", "maxLength": 128, "description": "The same event is learnt once."}
NUMBER = {"type": ["number", "null"]}
COUNT = {"type": "integer", "minimum": 0}
WEIGHT = {"type": "number", "exclusiveMinimum": 0, "description": "How much it counts, if not 1."}
LABEL = {"$ref": "#/components/schemas/Class"}
ROW = {"clicks": 3, "from": "mail"}


def parameters() -> Json:
    """Of paths, queries and headers."""
    text = {"type": "string"}
    return {
        "Idempotency-Key": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "Another way to give the event's id; not for lines.",
            "schema": {"type": "string", "maxLength": 128},
        },
        "label": {
            "name": "label",
            "in": "query",
            "description": "Of Arrow: the column with the labels.",
            "schema": {**text, "default": "label"},
        },
        "weight": {
            "name": "weight",
            "in": "query",
            "description": "Of Arrow: the column with the weights.",
            "schema": text,
        },
        "ids": {
            "name": "ids",
            "in": "query",
            "description": "Of Arrow: answer with a column of ids, for labels that come later.",
            "schema": {"const": "true"},
        },
        "name": {
            "name": "name",
            "in": "path",
            "required": True,
            "description": "Of the model.",
            "schema": text,
        },
        "shadow": {
            "name": "shadow",
            "in": "path",
            "required": True,
            "description": "Name of the shadow.",
            "schema": text,
        },
    }


def _object(properties: Json, required: tuple[str, ...] | None = None, **more: Any) -> Json:
    needed = [*properties] if required is None else [*required]
    return {"type": "object", "properties": properties, "required": needed, **more}


def _list(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def schemas() -> Json:
    """Of bodies and answers."""
    row, label = {"$ref": "#/components/schemas/Row"}, LABEL
    one_id = {"oneOf": [EVENT_ID, {"const": True}]}
    ids = {"oneOf": [_list(EVENT_ID), {"const": True}]}
    numbers = {"type": "object", "additionalProperties": {"type": "number"}}
    wanted = {
        "scores": {"type": "boolean", "description": "The score of each class as well."},
        "proba": {"type": "boolean", "description": 'Probabilities (`calibration="online"`).'},
    }
    label_of = _object({"id": EVENT_ID, "label": label, "weight": WEIGHT}, ("id", "label"))
    learn_one = _object(
        {"row": row, "label": label, "weight": WEIGHT, "id": EVENT_ID}, ("row", "label")
    )
    learn_many = _object(
        {
            "rows": _list(row),
            "labels": _list(label),
            "weights": _list(WEIGHT),
            "id": EVENT_ID,
        },
        ("rows", "labels"),
    )
    return {
        "Row": {
            "description": "Values by the names of columns, or all numbers in order.",
            "oneOf": [
                {
                    "type": "object",
                    "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
                },
                _list({"type": "number"}),
            ],
        },
        "Class": {
            "type": ["string", "number", "boolean"],
            "description": "One of the model's classes.",
        },
        "Learn": {"oneOf": [learn_one, learn_many]},
        "Learnt": _object(
            {
                "learnt": {**COUNT, "description": "Rows that were learnt by this request."},
                "duplicate": {"type": "boolean", "description": "It had been learnt before."},
                "duplicates": {**COUNT, "description": "Of several events: how many had been."},
                "sequence": {**COUNT, "description": "Number of the last event in the log."},
            },
            ("learnt", "sequence"),
        ),
        "Predict": {
            "oneOf": [
                _object({"row": row, "id": one_id, **wanted}, ("row",)),
                _object({"rows": _list(row), "ids": ids, **wanted}, ("rows",)),
            ]
        },
        "Predicted": {
            "oneOf": [
                _object(
                    {
                        "prediction": label,
                        "scores": numbers,
                        "probabilities": numbers,
                        "id": EVENT_ID,
                    },
                    ("prediction",),
                ),
                _object(
                    {
                        "predictions": _list(label),
                        "scores": _list(numbers),
                        "probabilities": _list(numbers),
                        "ids": _list(EVENT_ID),
                    },
                    ("predictions",),
                ),
            ]
        },
        "Label": {"oneOf": [label_of, _object({"labels": _list(label_of)})]},
        "Shadow": _object(
            {
                "name": {"type": "string", "maxLength": 64},
                "algorithm": {"type": "string", "enum": list(ALGORITHMS)},
                "parameters": {"type": "object"},
            },
            ("name", "algorithm"),
        ),
        "Promote": _object({"shadow": {"type": "string"}}),
        "Changed": _object({"sequence": COUNT, "duplicate": {"type": "boolean"}}, ("sequence",)),
        "Health": _object({"status": {"type": "string"}}),
        "Models": _object({"models": _list(_object({"name": {"type": "string"}}))}),
        "Error": _object({"error": {"type": "string"}}),
        "State": _state(),
    }


STATE = {
    "name": "default",
    "status": "ok",
    "algorithm": "AMIRA",
    "parameters": {"C": 1.0},
    "classes": ["buys", "leaves"],
    "n_features": 2,
    "columns": ["clicks", "from=mail"],
    "sequence": 4711,
    "events": 4711,
    "rows": 4711,
    "updates": 903,
    "mistakes": 518,
    "answers": 2350,
    "wrong_answers": 329,
    "answer_accuracy": 0.86,
    "recent_answer_accuracy": 0.9,
    "progressive_accuracy": 0.89,
    "recent_progressive_accuracy": 0.93,
    "loss": 0.31,
    "recent_loss": 0.22,
    "largest_class_share": 0.61,
    "events_per_second": 1874.0,
    "rows_per_second": 1874.0,
    "latency_ms": {"learn": {"p50": 3.2, "p99": 12.4}, "predict": {"p50": 0.7, "p99": 3.9}},
    "waiting": 17,
    "queue": 0,
    "log_bytes": 834511,
    "snapshot_sequence": 4000,
    "uptime_seconds": 12345.6,
    "certificate": {"margin": None, "bound": 0.0123, "ratio": None},
    "drift": [{"row": 2800, "accuracy_before": 0.91, "accuracy_after": 0.78}],
    "largest_weights": [{"name": "clicks", "class": "buys", "weight": 2.31}],
    "learners": [
        {
            "name": "amira",
            "role": "live",
            "algorithm": "AMIRA",
            "rows": 4711,
            "progressive_accuracy": 0.89,
            "recent_progressive_accuracy": 0.93,
            "loss": 0.31,
            "recent_loss": 0.22,
            "updates": 903,
            "refused": 0,
            "history": [[4711, 0.93]],
        }
    ],
    "history": [[4711, 0.89, 0.93, 0.22]],
    "example": ROW,
}


def _state() -> Json:
    """Its keys are always there, and null where nothing is known."""
    name = {"type": "string"}
    quantiles = _object({"p50": NUMBER, "p99": NUMBER})
    scores = {
        "progressive_accuracy": {
            **NUMBER,
            "description": "Of predictions made just before each row was learnt, all rows.",
        },
        "recent_progressive_accuracy": {**NUMBER, "description": "The same, the last 1000 rows."},
        "loss": NUMBER,
        "recent_loss": NUMBER,
    }
    learner = {
        "name": name,
        "role": {"enum": ["live", "shadow"]},
        "algorithm": name,
        "rows": COUNT,
        **scores,
        "updates": COUNT,
        "refused": {**COUNT, "description": "Events that this learner could not learn from."},
        "history": _list(
            _list(NUMBER), description="Row and recent progressive accuracy, thinned."
        ),
    }
    drift = {"row": COUNT, "accuracy_before": NUMBER, "accuracy_after": NUMBER}
    label = LABEL
    counts = ("sequence", "events", "rows", "updates", "waiting", "queue", "log_bytes")
    numbers = ("largest_class_share", "events_per_second", "rows_per_second", "uptime_seconds")
    special = {
        "name": name,
        "status": {"enum": ["ok", "replaying", "stopping", "stopped", "failed"]},
        "algorithm": name,
        "parameters": {"type": "object"},
        "classes": _list(label),
        "n_features": {"type": ["integer", "null"]},
        "columns": _list(name, maxItems=200),
        "snapshot_sequence": {"type": ["integer", "null"]},
        "latency_ms": _object({"learn": quantiles, "predict": quantiles}),
        "certificate": {"type": ["object", "null"]},
        "drift": _list(_object(drift), description="Drops of the progressive accuracy."),
        "mistakes": {**COUNT, "description": "Wrong predictions made just before learning."},
        "answers": {
            **COUNT,
            "description": "Predictions that were served with an id, and whose label has come.",
        },
        "wrong_answers": {**COUNT, "description": "Those of them that were wrong, as served."},
        "answer_accuracy": {
            **NUMBER,
            "description": "Of these answers as they were served, by whichever learner was live.",
        },
        "recent_answer_accuracy": {**NUMBER, "description": "The same, the last 1000 answers."},
        "largest_weights": _list(_object({"name": name, "class": label, "weight": NUMBER})),
        "learners": _list(_object(learner)),
        "history": _list(
            _list(NUMBER),
            maxItems=300,
            description=(
                "Row, progressive accuracy, recent progressive accuracy and recent loss, thinned."
            ),
        ),
        "example": {"description": "The last row, or null."},
    }
    plain = dict.fromkeys(counts, COUNT) | dict.fromkeys(numbers, NUMBER)
    return _object({each: (special | scores | plain)[each] for each in STATE})
