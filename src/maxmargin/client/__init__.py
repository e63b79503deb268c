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
BUSY = {408, 429, 503}  # what passes: the same request may well be answered a little later
# Seconds before a request is made again: they double, and vary, so that clients do not meet.
FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0
# A server that asks for more patience than so many seconds is left to the caller.
MOST_PATIENCE = 60.0
# An answer in JSON with more bytes is none of our server, nor is a sentence of so many letters.
MOST_BYTES, MOST_REASON_BYTES, MOST_LETTERS = 2**26, 2**16, 1000
PART = 2**20  # bytes of a file that are written at a time
# What a server does to connections that it has kept long enough.
GONE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class ServeError(Exception):
    """The server did not do what it was asked for.

    Attributes
    ----------
    status : int or None
        Status of the answer; None if there was none.
    reason : str
        The server's sentence, or what happened to the connection.
    """

    def __init__(self, status: int | None, reason: str) -> None:
        super().__init__(reason if status is None else f"{reason} (status {status})")
        self.status = status
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.reason)


class Refused(ServeError):
    """The server refuses the request, and will do so again: a row that does not fit, no token."""


class Unavailable(ServeError):
    """The server could not be reached, or was too busy, however often it was tried.

    An event may have been learned all the same, if its answer was lost: send it again with the same
    id, and it will be learned once.
    """


def new_id() -> str:
    """An id that nobody else has, for an event or for a prediction whose label comes later.

    Examples
    --------
    >>> from maxmargin.client import new_id
    >>> len(new_id())
    32
    """
    return uuid.uuid4().hex


class Client:
    """Teaches and asks a model behind an address.

    A request that is lost on the way, or that the server is too busy for (429, 503), is made again
    with the same event id, so that nothing is learned twice. A client may be shared by threads:
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
        How often a request is made again before `Unavailable` is raised.

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
        self._root = address.path.rstrip("/")
        self._model = "" if model is None else f"/models/{urllib.parse.quote(model, safe='')}"
        self._headers = {"Accept": JSON}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout = timeout
        self._retries = retries
        self._own = threading.local()
        self._lines: weakref.WeakSet[_Line] = weakref.WeakSet()
        self._closed = threading.Event()

    # ------------------------------------------------------------------------ learning and asking
    def learn(
        self, rows: Any, labels: Any, *, weights: Any = None, id: str | None = None
    ) -> dict[str, Any]:
        """Let the model learn from one row or many; all of them are one event.

        Parameters
        ----------
        rows : one row (dict, list, 1-d array, Series) or many (list of rows, 2-d array, frame)
        labels : the label, or one for each row
        weights : how much they count, if not 1
        id : of the event, if it has one; otherwise it gets one

        Returns
        -------
        dict
            ``learned``, the number of rows; ``duplicate``, whether the event had been learned
            before; ``sequence``, its number. When it is returned, the event is on the disk.
        """
        given = _Rows.of(rows)
        key = new_id() if id is None else id
        question = {
            **given.named("row", "rows"),
            **given.each("label", "labels", labels),
            "id": key,
        }
        if weights is not None:
            question |= given.each("weight", "weights", weights)
        return self._post("/learn", question)

    def predict(self, rows: Any, *, id: Any = None) -> Any:
        """The label that the model expects, of one row or of each.

        With an `id` (one for each row) the server keeps the row until its label comes: `label`.
        """
        given = _Rows.of(rows)
        question = given.named("row", "rows")
        if id is not None:
            question |= given.each("id", "ids", id)
        return self._field(
            self._post("/predict", question), "predictions" if given.many else "prediction"
        )

    def decision_function(self, rows: Any) -> Any:
        """The score of each class, by its name, of one row or of each."""
        question = {**_Rows.of(rows).named("row", "rows"), "scores": True}
        return self._field(self._post("/predict", question), "scores")

    def predict_proba(self, rows: Any) -> Any:
        """The probability of each class, by its name, of one row or of each."""
        question = {**_Rows.of(rows).named("row", "rows"), "proba": True}
        return self._field(self._post("/predict", question), "probabilities")

    def label(self, ids: Any, labels: Any, *, weights: Any = None) -> dict[str, Any]:
        """Bring the label of a prediction that had an id, or the labels of several.

        Each is learned once, however often it is brought. `Refused` with status 404 if nobody knows
        the id (any more), and 409 if it had another label.
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
        """What is known of the model: counts, accuracy, certificate, parameters, columns.

        ``answer_accuracy`` is that of predictions as they were served, for those whose label has
        come; ``progressive_accuracy`` that of predictions made just before each row was learned.
        """
        return self._json("GET", f"{self._model}/model")

    def models(self) -> list[dict[str, Any]]:
        """The models of the server, the first one first."""
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
        """Let another learner learn along from now on, to be compared."""
        question = {"name": name, "algorithm": algorithm, "parameters": parameters}
        return self._post("/shadows", question, key=new_id())

    def remove_shadow(self, name: str) -> dict[str, Any]:
        """End a shadow."""
        path = f"{self._model}/shadows/{urllib.parse.quote(name, safe='')}"
        return self._json("DELETE", path, key=new_id())

    def promote(self, shadow: str) -> dict[str, Any]:
        """Let a shadow answer from now on; the learner that did becomes a shadow."""
        return self._post("/promote", {"shadow": shadow}, key=new_id())

    # --------------------------------------------------------------------------------- the server
    def is_ready(self) -> bool:
        """Does the server answer, and take events, at this moment?"""
        try:
            return self._once("GET", f"{self._root}/health", b"", {}).status == 200
        except (OSError, http.client.HTTPException, Refused):
            return False

    def metrics(self) -> str:
        """What the server counts and measures, in the text format of Prometheus."""
        return self._ask("GET", "/metrics").decode("utf-8", "replace")

    def close(self) -> None:
        """Close the connections of all threads. A client that is closed stays closed."""
        self._closed.set()
        for line in list(self._lines):
            line.close()

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
    def _post(self, path: str, question: dict[str, Any], key: str | None = None) -> dict[str, Any]:
        return self._json("POST", self._model + path, _encoded(question), key)

    def _json(
        self, method: str, path: str, body: bytes = b"", key: str | None = None
    ) -> dict[str, Any]:
        content = self._ask(method, path, body, key)
        try:
            found = json.loads(content, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise self._stranger("no JSON") from None
        if not isinstance(found, dict):
            raise self._stranger("no object of JSON")
        return found

    def _field(self, answer: dict[str, Any], name: str) -> Any:
        if name not in answer:
            raise self._stranger(f"the answer has no {name!r}")
        return answer[name]

    def _stranger(self, why: str, status: int = 200) -> Refused:
        return Refused(status, f"{self._address.netloc} is no server of maxmargin: {why}")

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        key: str | None = None,
        into: BinaryIO | None = None,
    ) -> bytes:
        """The answer, for which one may have to ask several times; it may go into a file."""
        headers = {"Content-Type": JSON} if body else {}
        if key is not None:
            headers["Idempotency-Key"] = key
        attempt = 0
        while True:
            wait = min(FIRST_WAIT * 2.0**attempt, LONGEST_WAIT) * random.uniform(0.5, 1.0)
            try:
                answer = self._once(method, self._root + path, body, headers, into)
            except ssl.SSLCertVerificationError as error:
                raise Unavailable(
                    None, f"{self._address.netloc}: {error.verify_message}"
                ) from error
            except (OSError, http.client.HTTPException) as error:
                trouble = Unavailable(
                    None, f"{self._address.netloc}: {error or type(error).__name__}"
                )
                trouble.__cause__ = error
            else:
                if 200 <= answer.status < 300:
                    return answer.content
                if answer.status not in BUSY:
                    raise Refused(answer.status, answer.reason)
                trouble = Unavailable(answer.status, answer.reason)
                wait = max(wait, answer.patience)
            if attempt == self._retries or wait > MOST_PATIENCE:
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
        line = self._line()
        try:
            try:
                return line.ask(method, path, body, self._headers | headers, into)
            except GONE:
                if not line.was_kept:
                    raise
            return line.ask(method, path, body, self._headers | headers, into)
        except _Strange as strange:
            raise self._stranger(str(strange), strange.status) from None

    def _line(self) -> _Line:
        if self._closed.is_set():
            raise ValueError("the client is closed")
        line: _Line | None = getattr(self._own, "line", None)
        if line is None or line.process != os.getpid():  # a connection is not shared after a fork
            line = self._own.line = _Line(self._address, self._timeout)
            self._lines.add(line)
        return line


class _Answer(NamedTuple):
    status: int
    content: bytes
    patience: float  # seconds that the server asks to wait

    @property
    def reason(self) -> str:
        """The server's sentence, which may be shown in a terminal."""
        try:
            text = str(json.loads(self.content)["error"])
        except (ValueError, TypeError, KeyError, RecursionError):
            text = self.content[:200].decode("utf-8", "replace")
        plain = "".join(letter if letter.isprintable() else " " for letter in text[:MOST_LETTERS])
        return plain.strip() or http.client.responses.get(self.status, "no reason given")


class _Strange(Exception):
    """An answer that our server does not give."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Clock:
    """How long a request may still take."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.restart()

    def restart(self) -> None:
        self.end = time.monotonic() + self.seconds

    def limit(self, line: socket.socket) -> None:
        """Let the next call wait no longer than that."""
        left = self.end - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("timed out")
        line.settimeout(left)


class _Timed(io.RawIOBase):
    """Bytes from a socket, until the clock has run out, however many come meanwhile."""

    def __init__(self, raw: Any, line: socket.socket, clock: _Clock) -> None:
        self._raw, self._line, self._clock = raw, line, clock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Any:
        self._clock.limit(self._line)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _timed_response(
    clock: _Clock, line: socket.socket, *given: Any, **named: Any
) -> http.client.HTTPResponse:
    """An answer that is read while the clock runs."""
    response = http.client.HTTPResponse(line, *given, **named)
    plain: Any = response.fp
    response.fp = io.BufferedReader(_Timed(plain.detach(), line, clock))
    return response


class _Line:
    """One connection, opened when it is needed, and closed by whatever goes wrong on it."""

    def __init__(self, address: urllib.parse.SplitResult, timeout: float) -> None:
        kind = (
            http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        )
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
        """The body of an answer, of which no more is read than makes sense."""
        status = response.status
        if status < 200:  # another answer would follow
            raise _Strange(status, "an answer that is none")
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
                    raise _Strange(status, f"an answer of more than {most:,} bytes")
                return bytes(content)
        _check_whole(response)
        return bytes(content)

    def _copy(self, response: http.client.HTTPResponse, file: BinaryIO) -> None:
        """Put a body into a file; it says its length, so that it is known to be whole."""
        if response.length is None:
            raise _Strange(response.status, "a file that does not say its length")
        file.seek(0)
        file.truncate()
        while part := response.read(PART):
            file.write(part)
            self._clock.restart()
        _check_whole(response)

    def close(self) -> None:
        """By whichever thread; one that waits for an answer finds that there will be none."""
        if self._busy.acquire(blocking=False):
            self._connection.close()
            self._busy.release()
        elif (line := self._connection.sock) is not None:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _check_whole(response: http.client.HTTPResponse) -> None:
    if response.length:  # that was told, and has not come
        raise http.client.IncompleteRead(b"", response.length)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _seconds(retry_after: str | None) -> float:
    """What the header says: seconds, or a date."""
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
                return cls([_without_gaps(row) for row in getattr(rows, method)()], many=True)
        if hasattr(rows, "columns") and hasattr(rows, "to_dict"):  # a frame of pandas
            return cls([_without_gaps(row) for row in rows.to_dict(orient="records")], many=True)
        if hasattr(rows, "to_dict"):  # a Series of pandas
            return cls(_without_gaps(rows.to_dict()), many=False)
        if hasattr(rows, "tolist"):
            if rows.ndim not in (1, 2):
                raise ValueError(f"rows must be an array of 1 or 2 dimensions, not of {rows.ndim}")
            return cls(rows.tolist(), many=rows.ndim == 2)
        if not isinstance(rows, list | tuple):
            raise TypeError(
                f"rows must be dicts, lists, arrays or frames, not {type(rows).__name__}"
                + (" (of sparse rows send dicts)" if hasattr(rows, "tocsr") else "")
            )
        if any(_is_row(each) for each in rows):
            return cls([cls.of(each).values for each in rows], many=True)
        return cls(list(rows), many=False)

    def named(self, one: str, many: str) -> dict[str, Any]:
        return {many if self.many else one: self.values}

    def each(self, one: str, many: str, values: Any) -> dict[str, Any]:
        """What belongs to each row: one value, or as many as there are rows."""
        if not self.many:
            return {one: values}
        found = _listed(values)
        if len(found) != len(self.values):
            raise ValueError(f"{many}: {len(found)} of them for {len(self.values)} rows")
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
        raise TypeError(f"of many rows there are many values, not {type(values).__name__}")
    return list(values)


def _without_gaps(row: dict[str, Any]) -> dict[str, Any]:
    """The row of a frame, where what is missing may be NaN, NaT or NA."""
    return {name: None if _is_missing(value) else value for name, value in row.items()}


def _is_missing(value: Any) -> bool:
    try:
        return bool(value != value)
    except (TypeError, ValueError):  # NA, which says of nothing whether it is so
        return not hasattr(value, "__len__")


def _encoded(question: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(question, default=_plain, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        if "circular" in str(error).lower():
            raise
        raise ValueError(
            "a row, label or weight is NaN or infinite, which JSON has no numbers for"
        ) from None
    return text.encode()


def _plain(value: Any) -> Any:
    """What JSON does not know: scalars and arrays of NumPy, dates."""
    for method in ("tolist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be sent as JSON")
