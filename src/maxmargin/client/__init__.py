"""A client of ``maxmargin serve``, made of the standard library alone.

Rows are dicts, lists, or whatever has them: arrays of NumPy, frames of pandas and Polars, tables
of pyarrow. None of these libraries is imported here.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import io
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
import weakref
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, NoReturn

__all__ = ["Client", "Refused", "ServeError", "Unavailable", "new_id"]

JSON = "application/json"
BUSY = {408, 429, 503}  # statuses after which the same request may succeed later
# Seconds before a request is sent again: they double, with jitter.
FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0
# If the server asks to wait for more seconds than that, the caller decides.
MOST_RETRY_AFTER = 60.0
# Our server sends no larger answers in JSON, and no longer reasons.
MOST_BYTES, MOST_REASON_BYTES, MOST_LETTERS = 2**26, 2**16, 1000
PART = 2**20  # bytes of a file that are written at a time
# Errors of a connection that the server has closed because it was idle.
GONE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class ServeError(Exception):
    """A request failed.

    Attributes
    ----------
    status : int or None
        Status of the answer; None if there was none.
    reason : str
        The server's error message, or what happened to the connection.
    """

    def __init__(self, status: int | None, reason: str) -> None:
        super().__init__(reason if status is None else f"{reason} (status {status})")
        self.status = status
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.reason)


class Refused(ServeError):
    """The server refuses the request, and would do so again: an invalid row, a wrong token."""


class Unavailable(ServeError):
    """The server could not be reached, or was too busy, after all retries.

    An event may have been learned all the same, if its answer was lost: send it again with the same
    id, and it will be learned once.
    """


def new_id() -> str:
    """A unique id, for an event or for a prediction whose label comes later.

    Examples
    --------
    >>> from maxmargin.client import new_id
    >>> len(new_id())
    32
    """
    return uuid.uuid4().hex


class Client:
    """A client of one model of a server: it learns, predicts and reports.

    A request that is lost, or that the server is too busy for (429, 503), is sent again with the
    same event id, so that nothing is learned twice. A client may be shared by threads:
    each has a connection of its own, which is kept open.

    Parameters
    ----------
    url : str
        Where the server is: ``http://127.0.0.1:8765``, or where it is mounted.
    model : str, optional
        Name of the model, where the server has several; by default the server's default model.
    token : str, optional
        The server's token, if it has one.
    timeout : float, default=30.0
        Seconds for one attempt: to connect, to send the request and to get the whole answer; of a
        file, each MiB.
    retries : int, default=8
        How often a request is sent again before `Unavailable` is raised.

    Examples
    --------
    >>> from maxmargin.client import Client
    >>> with Client("http://127.0.0.1:8765") as client:  # doctest: +SKIP
    ...     client.learn({"clicks": 3, "from": "mail"}, "buys")
    ...     client.predict({"clicks": 2, "from": "mail"})
    {'learned': 1, 'duplicate': False, 'sequence': 1}
    'buys'
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 8,
    ) -> None:
        address = urllib.parse.urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError(f"url must begin with http:// or https:// and a host, not {url!r}")
        if address.username is not None or address.query or address.fragment:
            raise ValueError(
                "url must have no password, query or fragment; a token has its own parameter"
            )
        try:
            _ = address.port
        except ValueError:
            raise ValueError("the port of url must be a number from 0 to 65535") from None
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ValueError("token must be of characters that a header can hold")
        if timeout <= 0.0 or retries < 0:
            raise ValueError("timeout must be positive, and retries not negative")
        self._address = address
        self._host, self._root = address.netloc, address.path.rstrip("/")
        self._model = "" if model is None else f"/models/{urllib.parse.quote(model, safe='')}"
        self._headers = {"Accept": JSON}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._retries = retries
        self._local = threading.local()
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._closed = threading.Event()

    # ------------------------------------------------------------------- learning and predicting
    def learn(
        self, rows: Any, labels: Any, *, weights: Any = None, id: str | None = None
    ) -> dict[str, Any]:
        """Let the model learn from one row or many; all of them are one event.

        Parameters
        ----------
        rows : one row (dict, list, 1-d array, Series) or many (list of rows, 2-d array, frame)
        labels : the label, or one for each row
        weights : the sample weight, or one for each row; 1 by default
        id : of the event; by default a new one

        Returns
        -------
        dict
            ``learned``, the number of rows; ``duplicate``, whether the event had been learned
            before; ``sequence``, its number. When it is returned, the event is on the disk.
        """
        given = _Rows.of(rows)
        key = new_id() if id is None else id
        content = given.named("row", "rows") | given.each("label", "labels", labels) | {"id": key}
        if weights is not None:
            content |= given.each("weight", "weights", weights)
        return self._post("/learn", content)

    def predict(self, rows: Any, *, id: Any = None) -> Any:
        """The predicted label of one row, or of each.

        With an `id` (one for each row) the server keeps the row until its label comes: `label`.
        """
        return self._predicted(rows, "prediction", "predictions", id)

    def decision_function(self, rows: Any) -> Any:
        """The score of each class, by its name, of one row or of each."""
        return self._predicted(rows, "scores", "scores", scores=True)

    def predict_set(self, rows: Any) -> Any:
        """The classes in the prediction set of one row, or of each."""
        return self._predicted(rows, "set", "sets", set=True)

    def predict_proba(self, rows: Any) -> Any:
        """The probability of each class, by its name, of one row or of each."""
        return self._predicted(rows, "probabilities", "probabilities", proba=True)

    def _predicted(self, rows: Any, one: str, many: str, id: Any = None, **asked: bool) -> Any:
        """A field of the answer for one row, or for many."""
        given = _Rows.of(rows)
        content = given.named("row", "rows") | asked
        if id is not None:
            content |= given.each("id", "ids", id)
        return self._field(self._post("/predict", content), many if given.many else one)

    def label(self, ids: Any, labels: Any, *, weights: Any = None) -> dict[str, Any]:
        """Send the label of a prediction that had an id, or the labels of several.

        Each is learned once, however often it is sent. `Refused` with status 404 if no prediction
        waits under the id, and 409 if it had another label.
        """
        if isinstance(ids, str):
            weight = {} if weights is None else {"weight": weights}
            return self._post("/label", {"id": ids, "label": labels, **weight})
        given = _Rows(_listed(ids), many=True)
        columns = given.named("", "id") | given.each("", "label", labels)
        if weights is not None:
            columns |= given.each("", "weight", weights)
        each = zip(*columns.values(), strict=True)
        return self._post(
            "/label", {"labels": [dict(zip(columns, one, strict=True)) for one in each]}
        )

    # --------------------------------------------------------------------------------- the models
    def model(self) -> dict[str, Any]:
        """The state of the model: counts, accuracy, certificate, parameters, columns.

        ``answer_accuracy`` is that of predictions as they were served, for those whose label has
        come; ``progressive_accuracy`` that of predictions made just before each row was learned.
        """
        return self._json("GET", f"{self._model}/model")

    def models(self) -> list[dict[str, Any]]:
        """The models of the server, the default one first."""
        found: list[dict[str, Any]] = self._field(self._json("GET", "/models"), "models")
        return found

    def download(self, path: str | os.PathLike[str]) -> None:
        """Write the model into a file that `maxmargin.load` reads."""
        target = Path(path)
        beside = target.with_name(f".{target.name}.{new_id()}")
        try:
            with beside.open("wb") as file:
                self._ask("GET", f"{self._model}/model/file", into=file)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)

    def add_shadow(self, name: str, algorithm: str, **parameters: Any) -> dict[str, Any]:
        """Add a shadow, which learns from all further events for comparison."""
        content = {"name": name, "algorithm": algorithm, "parameters": parameters}
        return self._post("/shadows", content, key=new_id())

    def remove_shadow(self, name: str) -> dict[str, Any]:
        """Remove a shadow."""
        path = f"{self._model}/shadows/{urllib.parse.quote(name, safe='')}"
        return self._json("DELETE", path, key=new_id())

    def promote(self, shadow: str) -> dict[str, Any]:
        """Exchange a shadow and the live learner."""
        return self._post("/promote", {"shadow": shadow}, key=new_id())

    # --------------------------------------------------------------------------------- the server
    def is_ready(self) -> bool:
        """Whether the server answers and accepts events."""
        try:
            return self._once("GET", f"{self._root}/health", b"", {}).status == 200
        except (OSError, http.client.HTTPException, Refused):
            return False

    def metrics(self) -> str:
        """Counts and latencies, in the text format of Prometheus."""
        return self._ask("GET", "/metrics").decode("utf-8", "replace")

    def close(self) -> None:
        """Close the connections of all threads. A client that is closed stays closed."""
        self._closed.set()
        for connection in list(self._connections):
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    # ------------------------------------------------------------------------------------ requests
    def _post(self, path: str, content: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        return self._json("POST", self._model + path, _encoded(content), key)

    def _json(
        self, method: str, path: str, body: bytes = b"", key: str | None = None
    ) -> dict[str, Any]:
        content = self._ask(method, path, body, key)
        try:
            found = json.loads(content, parse_constant=_not_json)
        except (ValueError, RecursionError):
            raise _not_ours(self._host, "the answer is not valid JSON") from None
        if not isinstance(found, dict):
            raise _not_ours(self._host, "the answer is not a JSON object")
        return found

    def _field(self, answer: dict[str, Any], name: str) -> Any:
        if name not in answer:
            raise _not_ours(self._host, f"the answer has no field {name!r}")
        return answer[name]

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = None,
        into: BinaryIO | None = None,
    ) -> bytes:
        """The body of the answer, after as many attempts as it takes; or it goes into a file."""
        headers = {"Content-Type": JSON} if body else {}
        if key is not None:
            headers["Idempotency-Key"] = key
        attempt = 0
        while True:
            wait = min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                answer = self._once(method, self._root + path, body, headers, into)
            except ssl.SSLCertVerificationError as error:
                raise Unavailable(None, f"{self._host}: {error.verify_message}") from error
            except (OSError, http.client.HTTPException) as error:
                trouble = Unavailable(None, f"{self._host}: {error or type(error).__name__}")
                trouble.__cause__ = error
            else:
                if 200 <= answer.status < 300:
                    return answer.content
                if answer.status not in BUSY:
                    raise Refused(answer.status, answer.reason)
                trouble = Unavailable(answer.status, answer.reason)
                wait = max(wait, answer.retry_after)
            if attempt == self._retries or wait > MOST_RETRY_AFTER:
                raise trouble
            if self._closed.wait(wait):
                raise trouble
            attempt += 1

    def _once(
        self,
        method: str,
        path: str,
        body: bytes,
        headers: dict[str, str],
        into: BinaryIO | None = None,
    ) -> _Answer:
        """One request over the thread's connection, or over a new one if that was closed."""
        connection = self._connection()
        try:
            return connection.ask(method, path, body, self._headers | headers, into)
        except GONE:
            if not connection.was_kept:
                raise
        return connection.ask(method, path, body, self._headers | headers, into)

    def _connection(self) -> _Connection:
        """The connection of this thread, which is not shared after a fork."""
        if self._closed.is_set():
            raise ValueError("the client is closed")
        found: _Connection | None = getattr(self._local, "connection", None)
        if found is None or found.process != os.getpid():
            found = self._local.connection = _Connection(self._address, self._timeout)
            self._connections.add(found)
        return found


class _Answer(NamedTuple):
    status: int
    content: bytes
    retry_after: float  # seconds that the server asks to wait

    @property
    def reason(self) -> str:
        """The server's error message, of printable characters."""
        try:
            text = str(json.loads(self.content)["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            text = self.content[:200].decode("utf-8", "replace")
        plain = "".join(letter if letter.isprintable() else " " for letter in text[:MOST_LETTERS])
        return plain.strip() or http.client.responses.get(self.status, "no reason given")


def _not_ours(host: str, why: str, status: int = 200) -> Refused:
    """The error for an answer that our server does not give."""
    return Refused(status, f"{host} is not a maxmargin server: {why}")


class _Clock:
    """The time that is left for a request."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        self.end = time.monotonic() + self.seconds

    def limit(self, sock: socket.socket) -> None:
        """Let the next call wait no longer than that."""
        left = self.end - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("timed out")
        sock.settimeout(left)


class _Timed(io.RawIOBase):
    """Bytes from a socket until the time is up, however many come meanwhile."""

    def __init__(self, raw: Any, sock: socket.socket, clock: _Clock) -> None:
        self._raw, self._sock, self._clock = raw, sock, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._clock.limit(self._sock)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _timed_response(
    clock: _Clock, sock: socket.socket, *args: Any, **kwargs: Any
) -> http.client.HTTPResponse:
    """An answer that is read while the clock runs."""
    response = http.client.HTTPResponse(sock, *args, **kwargs)
    plain: Any = response.fp
    response.fp = io.BufferedReader(_Timed(plain.detach(), sock, clock))
    return response


class _Connection:
    """One connection, opened when it is needed, and closed after any error."""

    def __init__(self, address: urllib.parse.SplitResult, timeout: float) -> None:
        kind = (
            http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        )
        self._host = address.netloc
        self._connection = kind(address.hostname or "", address.port, timeout=timeout)
        self._clock = _Clock(timeout)
        self._connection.response_class = functools.partial(  # type: ignore[assignment]
            _timed_response, self._clock
        )
        self.process = os.getpid()
        self.was_kept = False  # was it open when the last request began?
        self._busy = threading.Lock()

    def ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str], into: BinaryIO | None
    ) -> _Answer:
        with self._busy:
            connection = self._connection
            self.was_kept = connection.sock is not None
            self._clock.restart()
            try:
                if connection.sock is None:
                    connection.connect()
                self._clock.limit(connection.sock)
                connection.request(method, path, body or None, headers)
                response = connection.getresponse()
                content = self._content(response, into)
            except BaseException:  # Ctrl-C too: what is left of an answer is not that of the next
                connection.close()
                raise
        return _Answer(response.status, content, _seconds(response.headers.get("Retry-After")))

    def _content(self, response: http.client.HTTPResponse, into: BinaryIO | None) -> bytes:
        """The body of an answer, up to a limit."""
        status = response.status
        if status < 200:  # another answer would follow
            raise _not_ours(self._host, "an informational answer", status)
        if into is not None and status == 200:
            self._copy(response, into)
            return b""
        is_good = 200 <= status < 300
        most = MOST_BYTES if is_good else MOST_REASON_BYTES
        content = bytearray()
        while part := response.read(min(PART, most + 1 - len(content))):
            content += part
            if len(content) > most:
                self._connection.close()
                if is_good:
                    why = f"an answer of more than {most:,} bytes"
                    raise _not_ours(self._host, why, status)
                return bytes(content)
        _check_whole(response)
        return bytes(content)

    def _copy(self, response: http.client.HTTPResponse, file: BinaryIO) -> None:
        """Copy a body into a file; by its length we know that it is complete."""
        if response.length is None:
            raise _not_ours(self._host, "a file without Content-Length", response.status)
        file.seek(0)
        file.truncate()
        while part := response.read(PART):
            file.write(part)
            self._clock.restart()
        _check_whole(response)

    def close(self) -> None:
        """Close it, by any thread; one that waits for an answer gets an error."""
        if self._busy.acquire(blocking=False):
            self._connection.close()
            self._busy.release()
        elif (sock := self._connection.sock) is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _check_whole(response: http.client.HTTPResponse) -> None:
    if response.length:  # bytes that are missing
        raise http.client.IncompleteRead(b"", response.length)


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")


def _seconds(retry_after: str | None) -> float:
    """The value of the header: seconds, or a date."""
    if not retry_after:
        return 0.0
    with contextlib.suppress(ValueError):
        return max(float(retry_after), 0.0)
    try:
        due = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    if due.tzinfo is None:
        due = due.replace(tzinfo=timezone.utc)
    return max((due - datetime.now(timezone.utc)).total_seconds(), 0.0)


# ------------------------------------------------------------------------------------ rows as JSON
class _Rows(NamedTuple):
    """One row, or many."""

    values: Any
    many: bool

    @classmethod
    def of(cls, rows: Any) -> _Rows:
        """Rows as lists and dicts, whatever they come in."""
        if isinstance(rows, Mapping):
            return cls(dict(rows), many=False)
        for method in ("to_dicts", "to_pylist"):  # a frame of Polars, a table of pyarrow
            if hasattr(rows, method):
                return cls([_with_nulls(row) for row in getattr(rows, method)()], many=True)
        if hasattr(rows, "columns") and hasattr(rows, "to_dict"):  # a frame of pandas
            return cls([_with_nulls(row) for row in rows.to_dict(orient="records")], many=True)
        if hasattr(rows, "to_dict"):  # a Series of pandas
            return cls(_with_nulls(rows.to_dict()), many=False)
        if hasattr(rows, "tolist"):
            if rows.ndim not in (1, 2):
                raise ValueError(f"rows must be an array of 1 or 2 dimensions, not of {rows.ndim}")
            return cls(rows.tolist(), many=rows.ndim == 2)
        if not isinstance(rows, list | tuple):
            raise TypeError(
                f"rows must be dicts, lists, arrays or frames, not {type(rows).__name__}"
                + ("; send sparse rows as dicts" if hasattr(rows, "tocsr") else "")
            )
        if any(_is_row(each) for each in rows):
            return cls([cls.of(each).values for each in rows], many=True)
        return cls(list(rows), many=False)

    def named(self, one: str, many: str) -> dict[str, Any]:
        return {many if self.many else one: self.values}

    def each(self, one: str, many: str, values: Any) -> dict[str, Any]:
        """One value for each row, by the name of the field."""
        if not self.many:
            return {one: values}
        found = _listed(values)
        if len(found) != len(self.values):
            raise ValueError(
                f"{many}: expected {len(self.values)} values, one for each row, got {len(found)}"
            )
        return {many: found}


def _is_row(value: Any) -> bool:
    if isinstance(value, Mapping | list | tuple) or hasattr(value, "to_dict"):
        return True
    return hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0


def _listed(values: Any) -> list[Any]:
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    if isinstance(values, str | bytes | Mapping):
        raise TypeError(f"expected one value for each row, got {type(values).__name__}")
    return list(values)


def _with_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a frame, with None for missing values: NaN, NaT or NA."""
    return {name: None if _is_missing(value) else value for name, value in row.items()}


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # comparing NA gives no truth value
        return not hasattr(value, "__len__")


def _encoded(content: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(content, default=_plain, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        if "circular" in str(error).lower():
            raise
        raise ValueError(
            "a row, label or weight is NaN or infinite, which JSON cannot represent"
        ) from None
    return text.encode()


def _plain(value: Any) -> Any:
    """Convert what JSON lacks: scalars and arrays of NumPy, dates."""
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be sent as JSON")
