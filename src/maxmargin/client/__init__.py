"""A client of ``maxmargin serve``, made of the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import threading
import time
import urllib.parse
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["Client", "Refused", "ServeError", "Unavailable", "new_id"]

Json = dict[str, Any]
BUSY = {429, 502, 503, 504, 507}  # statuses after which the same request may succeed later
FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0  # seconds before the next attempt; they double, with jitter


class ServeError(Exception):
    """A request failed: ``status`` of the answer (None if there was none), and the ``reason``."""

    def __init__(self, status: int | None, reason: str) -> None:
        super().__init__(status, reason)
        self.status, self.reason = status, reason

    def __str__(self) -> str:
        return self.reason if self.status is None else f"{self.reason} (status {self.status})"


class Refused(ServeError):
    """The server refuses the request, and would do so again."""


class Unavailable(ServeError):
    """The server could not be reached, or was too busy; send the event again with the same id."""


def new_id() -> str:
    """A unique id, for an event or for a prediction whose label comes later."""
    return uuid.uuid4().hex


class Client(contextlib.AbstractContextManager["Client", None]):
    """A client of a server: it learns, predicts and reports.

    A request that is lost, or that the server is too busy for, or that has no answer for
    ``timeout`` seconds is sent again with the same event id, up to ``retries`` times, so that
    nothing is learned twice. Threads may share a client; each has its own connection. Rows are
    dicts, lists, arrays, or frames of pandas, Polars or pyarrow.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8765") as client:  # doctest: +SKIP
    ...     client.learn({"clicks": 3, "from": "mail"}, "buys")
    {'learned': 1, 'duplicate': False, 'sequence': 1}
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 30.0, retries: int = 8
    ) -> None:
        self._url = urllib.parse.urlsplit(url)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
            raise ValueError(f"url must begin with http:// or https:// and a host, not {url!r}")
        allowed = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._headers = {"Content-Type": "application/json"} | allowed
        self._timeout, self._retries, self._local = timeout, retries, threading.local()

    def learn(self, rows: Any, labels: Any, *, weights: Any = None, id: str | None = None) -> Json:
        """Let the model learn from one row or many, as one event, which is on the disk then."""
        values, many = _plain_rows(rows)
        one = {"row": values, "label": _plain(labels), "weight": _plain(weights)}
        named = {f"{name}s": each for name, each in one.items()} if many else one
        return self._post("/learn", named | {"id": id or new_id()})

    def predict(self, rows: Any, *, id: Any = None) -> Any:
        """The predicted label of one row, or of each; with an ``id`` for each, for `label`."""
        return self._predicted(rows, "prediction", "predictions", id=id)

    def decision_function(self, rows: Any) -> Any:
        """The score of each class, by its name, of one row or of each."""
        return self._predicted(rows, "scores", "scores", scores=True)

    def predict_proba(self, rows: Any) -> Any:
        """The probability of each class, by its name, of one row or of each."""
        return self._predicted(rows, "probabilities", "probabilities", proba=True)

    def predict_set(self, rows: Any) -> Any:
        """The classes in the prediction set of one row, or of each."""
        return self._predicted(rows, "set", "sets", set=True)

    def explain(self, rows: Any) -> Any:
        """The largest contributions of columns to the prediction of one row, or of each."""
        return self._predicted(rows, "why", "why", why=True)

    def _predicted(self, rows: Any, one: str, several: str, id: Any = None, **asked: bool) -> Any:
        values, many = _plain_rows(rows)
        content = {"rows" if many else "row": values, "ids" if many else "id": _plain(id), **asked}
        return self._post("/predict", content)[several if many else one]

    def label(self, ids: Any, labels: Any, *, weights: Any = None) -> Json:
        """Send the label of a prediction that had an id, or the labels of several; learned once."""
        keys, given, weights = _plain(ids), _plain(labels), _plain(weights)
        if isinstance(ids, str):
            return self._post("/label", {"id": keys, "label": given, "weight": weights})
        columns = zip(keys, given, weights or [None] * len(keys), strict=True)
        found = [{"id": key, "label": label, "weight": w} for key, label, w in columns]
        return self._post("/label", {"labels": found})

    def model(self) -> Json:
        """The state of the model: counts, accuracy, certificate, parameters, columns."""
        return json.loads(self._ask("GET", "/model"))

    def download(self, path: str | os.PathLike[str]) -> None:
        """Write the model into a file that `maxmargin.load` reads."""
        Path(path).write_bytes(self._ask("GET", "/model/file"))

    def is_ready(self) -> bool:
        """Whether the server answers and accepts events."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self._once("GET", "/health", None)[0] == 200
        return False

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection of this thread; the next request opens a new one."""
        if (found := self._local.__dict__.pop(f"connection {os.getpid()}", None)) is not None:
            found.close()

    def _post(self, path: str, content: Json) -> Json:
        body = json.dumps(content, default=_plain, allow_nan=False).encode()
        return json.loads(self._ask("POST", path, body))

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer, after as many attempts as it takes."""
        for attempt in range(self._retries + 1):
            wait = min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                status, content, retry_after = self._once(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                trouble = Unavailable(None, f"{self._url.netloc}: {error or type(error).__name__}")
            else:
                if status == 200:
                    return content
                reason = content[:1000].decode("utf-8", "replace")
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    reason = str(json.loads(content)["error"])
                if status not in BUSY:
                    raise Refused(status, reason)
                trouble = Unavailable(status, reason)
                wait = max(wait, min(float(retry_after), 60.0) if retry_after.isdigit() else 0.0)
            if attempt < self._retries:
                time.sleep(wait)
        raise trouble

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, bytes, str]:
        """Status, body and ``Retry-After`` of one request, over the connection of this thread."""
        key, local = f"connection {os.getpid()}", self._local.__dict__
        if key not in local:
            kind = getattr(http.client, f"{self._url.scheme.upper()}Connection")
            local[key] = kind(self._url.hostname or "", self._url.port, timeout=self._timeout)
        connection = local[key]
        try:
            connection.request(method, self._url.path.rstrip("/") + path, body, self._headers)
            response = connection.getresponse()
            return response.status, response.read(), response.headers.get("Retry-After", "")
        except BaseException:  # Ctrl-C too: what is left of an answer is not that of the next
            self.close()
            raise


def _plain_rows(rows: Any) -> tuple[Any, bool]:
    """Rows as lists and dicts, and whether they are many; missing values of frames are None."""
    if hasattr(rows, "columns"):
        named = getattr(rows, "to_dicts", None) or getattr(rows, "to_pylist", None)
        found = named() if named else rows.to_dict(orient="records")
        return [{k: None if v != v else v for k, v in row.items()} for row in found], True
    if isinstance(rows, Mapping) or hasattr(rows, "to_dict"):
        return dict(rows), False
    if not (isinstance(rows, list | tuple) or hasattr(rows, "tolist")):
        raise TypeError(f"rows must be dicts, lists, arrays or frames, not {type(rows).__name__}")
    found = _plain(rows)
    return found, hasattr(next(iter(found), None), "__len__")


def _plain(value: Any) -> Any:
    """Arrays, series and numbers of NumPy as what JSON has; dates as text."""
    for method in ("tolist", "to_list", "to_pylist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    if value is None or isinstance(value, str | int | float | list | tuple | Mapping):
        return list(value) if isinstance(value, tuple) else value
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be sent as JSON")
