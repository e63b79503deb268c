"""The routes of the server, as an ASGI application of Starlette."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from maxmargin import __version__
from maxmargin.serve import openapi, page, prometheus
from maxmargin.serve.access import LOOPBACK, AccessRules, Gate
from maxmargin.serve.beginnings import checked_classes, description, servable
from maxmargin.serve.bodies import (
    JSON,
    LABEL,
    LEARN,
    NDJSON,
    PREDICT,
    LearnBody,
    PredictBody,
    Refusal,
    rows_of,
)
from maxmargin.serve.database import Database
from maxmargin.serve.served_model import Lesson, ServedModel
from maxmargin.serve.service import READY, Await, Label, Learn, Service, new_id
from maxmargin.serve.status import state_of

# Bodies up to this size are handled in the event loop itself; larger ones would block other
# requests, and are handled in threads.
BYTES_IN_LOOP = 2**15
BODY_BYTES = 2**26
# The fields of an answer for one row, and their names in an answer for many.
PLURAL = {"prediction": "predictions", "set": "sets", "id": "ids"}

logger = logging.getLogger("maxmargin.serve")


def create_app(
    data: Any,
    learner: Any = None,
    *,
    classes: Any = None,
    coverage: float | None = None,
    learn_token: str | None = None,
    predict_token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    on_failure: Callable[[], None] = lambda: None,
) -> Application:
    """Create an ASGI application that serves a learning model, and can be mounted in others.

    Its thread starts at once, and ends with `Application.close`, which servers call when they stop;
    an application that it is mounted in has to call it.

    Parameters
    ----------
    data : path
        The folder of the database; one server at a time uses it.
    learner : learner, default=None
        The model to begin with: fitted, or, with ``classes``, new. By default that of the folder.
    classes : array, default=None
        All labels, for a learner that is not fitted.
    coverage : float, default=None
        Give prediction sets with this coverage (`ConformalClassifier`).
    learn_token, predict_token : str, default=None
        Requests must have the header ``Authorization: Bearer TOKEN``. The token to predict is not
        enough for ``/learn``, ``/label`` and ``/model/file``.
    hosts : collection of str, default=("127.0.0.1", "localhost", "::1")
        Without tokens, the host names that requests may use; None for any.
    on_failure : function, default=None
        Is called, in a thread, if the server cannot go on.

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin import AMIRA
    >>> from maxmargin.serve import create_app
    >>> app = create_app(tempfile.mkdtemp(), AMIRA(), classes=["ham", "spam"])
    >>> app.close()
    """
    database = Database(Path(data))
    try:
        _begin(database, learner, classes, coverage)
        service = Service(database, on_failure)
    except BaseException:
        database.close()
        raise
    return Application(service, AccessRules(learn_token, predict_token, hosts))


def _begin(database: Database, learner: Any, classes: Any, coverage: float | None) -> None:
    """Begin with a learner, or check that the folder began with the same."""
    if learner is None:
        if database.is_new:
            raise ValueError(f"{database.folder} has no model yet: name one to begin with.")
        if coverage is not None and json.dumps(coverage) != database.about()["coverage"]:
            raise ValueError(f"{database.folder} was created with another coverage.")
    else:
        labels = checked_classes(learner, classes)
        learner = servable(learner, coverage)
        about = description(learner, labels)
        if database.is_new:
            database.begin(about, ServedModel(learner, labels).snapshot(time.time()))
            return
        known = database.about()
        for name, value in about.items():
            if known.get(name) != value:
                raise ValueError(
                    f"{database.folder} was created with {name} {known.get(name)}, not {value}: "
                    "use another folder, or leave the model out to continue."
                )
    before = database.about()["version"]
    if before != __version__:
        logger.info("the folder was last used by version %s", before)
        database.name_version()


class Application(Starlette):
    """The ASGI application over a model; see `create_app`."""

    def __init__(self, service: Service, access: AccessRules) -> None:
        self.service, self.requests = service, prometheus.Requests()
        routes = [
            Route("/predict", self._predict, methods=["POST"]),
            Route("/learn", self._learn, methods=["POST"]),
            Route("/label", self._label, methods=["POST"]),
            Route("/model", self._model),
            Route("/model/file", self._model_file),
            Route("/metrics", self._metrics),
            Route("/health", self._health),
            Route("/openapi.json", self._openapi),
            Route("/", self._page),
        ]
        gate = Middleware(
            Gate, access=access, requests=self.requests, routes={each.path for each in routes}
        )
        super().__init__(
            routes=routes,
            middleware=[gate],
            exception_handlers={HTTPException: _http_error, ClientDisconnect: _disconnected},
            lifespan=self._live,
        )
        service.start()

    @asynccontextmanager
    async def _live(self, _: Any) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await run_in_threadpool(self.close)

    def wait(self, seconds: float) -> None:
        """Wait until the events are replayed, for at most that many seconds."""
        self.service.recovered.wait(seconds)

    def close(self) -> None:
        """Finish the waiting requests, and save the model."""
        self.service.close()

    # ------------------------------------------------------------------------------------ events
    async def _body(self, request: Request) -> tuple[bytes, str]:
        """The body of a request and its type, once the model is ready."""
        if self.service.status != READY:
            raise self.service.not_ready()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (JSON, NDJSON):
            raise Refusal(415, f"the content type must be {JSON} or {NDJSON}.")
        size, parts = 0, []
        async for part in request.stream():
            size += len(part)
            if size > BODY_BYTES:
                raise Refusal(413, f"the body has more than {BODY_BYTES:,} bytes.")
            parts.append(part)
        return b"".join(parts), kind

    async def _computed(self, function: Callable[..., Any], body: bytes, kind: str) -> Any:
        """A function of a body; in a thread if it would block others."""
        if len(body) <= BYTES_IN_LOOP:
            return function(self.service.model, body, kind)
        return await run_in_threadpool(function, self.service.model, body, kind)

    async def _learn(self, request: Request) -> Response:
        body, lesson, text = await self._computed(taught, *await self._body(request))
        answer = await self.service.ask(Learn(body, lesson, text))
        last = lesson.rows[-1]
        self.service.model.example = last if isinstance(last, dict) else last.tolist()
        return _json(answer)

    async def _label(self, request: Request) -> Response:
        content, kind = await self._body(request)
        if kind == NDJSON:
            labels = [each for _, found in LABEL.lines(content) for each in found.each()]
            many = True
        else:
            found = LABEL.read(content)
            labels, many = found.each(), isinstance(found.labels, list)
        return _json(await self.service.ask(Label(labels, len(content), many=many)))

    async def _predict(self, request: Request) -> Response:
        body, kind = await self._body(request)
        model = self.service.model
        is_quick = len(body) <= BYTES_IN_LOOP and b'"why"' not in body
        if is_quick and model.lock.acquire(blocking=False):
            try:
                content, waiting = answered(model, body, kind)
            finally:
                model.lock.release()
        else:  # the model learns at the moment, or there is much to predict or to explain
            content, waiting = await run_in_threadpool(locked_answer, model, body, kind)
        if waiting:
            await self.service.ask(Await(waiting, len(body)))
        return Response(content, media_type=kind)

    # ------------------------------------------------------------------------------ other routes
    async def _model(self, request: Request) -> Response:
        return _json(await run_in_threadpool(state_of, self.service))

    async def _model_file(self, request: Request) -> Response:
        """The model between two events."""
        if self.service.status != READY:
            raise self.service.not_ready()
        content, sequence = await run_in_threadpool(self.service.model.file)
        headers = {"content-disposition": 'attachment; filename="model.mm"'}
        headers["x-sequence"] = str(sequence)
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def _metrics(self, request: Request) -> Response:
        is_up = self.service.status == READY and not self.service.trouble
        state = await run_in_threadpool(state_of, self.service)
        text = prometheus.text_of(state, self.requests, is_up=is_up)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        if self.service.status != READY:
            raise self.service.not_ready()
        if self.service.trouble:
            raise Refusal(503, self.service.trouble, retry_after=1)
        return _json({"status": "ok"})

    async def _openapi(self, request: Request) -> Response:
        return _json(openapi.document())

    async def _page(self, request: Request) -> Response:
        content, headers = page.live()
        return Response(content, headers=headers)


def _json(content: Any) -> Response:
    return Response(msgspec.json.encode(content), media_type=JSON)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = error.headers
    reason = f"there is no {request.url.path}." if error.status_code == 404 else error.detail
    return Response(
        msgspec.json.encode({"error": reason}), error.status_code, headers, media_type=JSON
    )


async def _disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=400)


# -------------------------------------------------------------------------------- bodies and rows
def taught(model: ServedModel, body: bytes, kind: str) -> tuple[LearnBody, Lesson, bytes]:
    """The body of ``POST /learn``, what it teaches, and the text to store."""
    if kind == JSON:
        found = LEARN.read(body)
        return found, model.lesson(found), body
    lines = [each for _, each in LEARN.lines(body)]
    for k, each in enumerate(lines):
        if isinstance(each.rows, list):
            raise Refusal(400, f"line {k + 1}: each line has one row.")
    weights = [1.0 if each.weight is None else each.weight for each in lines]
    found = LearnBody(
        rows=[each.row for each in lines],  # type: ignore[misc]
        labels=[each.label for each in lines],  # type: ignore[misc]
        weights=weights if any(each.weight is not None for each in lines) else None,
        ids=[each.id for each in lines],
    )
    return found, model.lesson(found), msgspec.json.encode(found)


def locked_answer(model: ServedModel, body: bytes, kind: str) -> Any:
    with model.lock:
        return answered(model, body, kind)


def answered(model: ServedModel, body: bytes, kind: str) -> tuple[bytes, dict[str, Any]]:
    """The answer to ``POST /predict``, and rows and answers that wait for labels, by their ids."""
    if kind == JSON:
        return _answered_one(model, PREDICT.read(body), "")
    answers, waiting = [], dict[str, Any]()
    for place, asked in PREDICT.lines(body):
        content, found = _answered_one(model, asked, f"{place}: ")
        answers.append(content)
        waiting = found | waiting
    return b"\n".join([*answers, b""]), waiting


def _answered_one(
    model: ServedModel, asked: PredictBody, place: str
) -> tuple[bytes, dict[str, Any]]:
    try:
        rows = rows_of(asked)
        columns = model.predict(rows, asked)
    except Refusal as refusal:
        raise Refusal(refusal.status, place + refusal.reason) from None
    many = isinstance(asked.rows, list)
    given: Any = asked.ids if many else asked.id
    waiting: dict[str, Any] = {}
    if given:
        if given is True:
            given = [new_id() for _ in range(len(rows))]
        elif isinstance(given, str):
            given = [given]
        columns["id"] = given
        raw: Any = asked.rows if many else [asked.row]
        waiting = dict(zip(given, zip(raw, columns["prediction"], strict=True), strict=True))
    if many:
        return msgspec.json.encode({PLURAL.get(k, k): v for k, v in columns.items()}), waiting
    return msgspec.json.encode({name: values[0] for name, values in columns.items()}), waiting
