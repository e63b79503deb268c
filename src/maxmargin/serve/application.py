"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
import urllib.parse
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.datastructures import QueryParams
from starlette.responses import Response, StreamingResponse

from maxmargin.persistence import save
from maxmargin.serve import bodies, openapi, pages, prediction_answers, requests, status
from maxmargin.serve.auth import LOOPBACK, Guard
from maxmargin.serve.bodies import ARROW, JSON, KINDS, NAME
from maxmargin.serve.events import DropShadow, NewShadow, Promotion
from maxmargin.serve.http_errors import HTTPError, bad_request, busy, unavailable
from maxmargin.serve.limits import Limits
from maxmargin.serve.registry import Models
from maxmargin.serve.requests import Call, ChangeShadows, checked_id
from maxmargin.serve.served_model import logger
from maxmargin.serve.service import READY, Service
from maxmargin.serve.snapshots import Beginning

# Bodies up to this size are read, and their rows predicted, in the event loop itself. Larger ones
# would block other requests; few threads read them, since they take many times their bytes.
BYTES_IN_LOOP = 2**15
SCORES_IN_LOOP = 2**22  # bytes of a body times classes
LARGE_AT_A_TIME = 2
SECONDS_BETWEEN_STATES = 1.0
# Paths that need no token.
OPEN = {each.route.split()[1] for each in openapi.OPERATIONS if each.is_open}
# A name, an IPv4 address, or an IPv6 address in brackets; and a port.
HOST = re.compile(r"([\w.-]{1,253}|\[[\da-f:.]{2,45}\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)

# The answer in a process that was forked with an application in it.
FORKED = (
    "the application was made in another process, and its threads did not come along: make it in "
    "the process that serves it, with gunicorn by one worker and without --preload."
)

T = TypeVar("T")
Headers = dict[bytes, bytes]


def create_app(
    data: Any,
    models: Mapping[str, Any] | None = None,
    *,
    classes: Any = None,
    token: str | None = None,
    hosts: Collection[str] | None = LOOPBACK,
    keep_log: bool = False,
    shadows: dict[str, tuple[str, dict[str, Any]]] | None = None,
    limits: Limits | None = None,
) -> Application:
    """Create an ASGI application that serves learning models, and can be mounted in others.

    Its threads start at once, and end with `Application.close`, which servers call when they stop;
    an application that it is mounted in has to call it. It serves in the process that made it; in
    one that is forked later, such as a worker of ``gunicorn --preload``, requests are refused.

    Parameters
    ----------
    data : path
        The folder with the logs and snapshots of all models.
    models : dict of str to learner, default=None
        Learners by name: fitted ones, or, with ``classes``, new ones. By default all models in the
        folder.
    classes : array, default=None
        All labels, for learners that are not fitted.
    token : str, default=None
        Requests must have the header ``Authorization: Bearer TOKEN``.
    hosts : collection of str, default=("127.0.0.1", "localhost", "::1")
        Without a token, the host names that requests may use; None for any.
    keep_log : bool, default=False
        Keep all events, for `maxmargin replay`.
    shadows : dict of str to (algorithm, parameters), default=None
        Learners that learn from the same events as each model.
    limits : Limits, default=None

    Examples
    --------
    >>> import tempfile
    >>> from maxmargin import AMIRA
    >>> from maxmargin.serve import create_app
    >>> app = create_app(tempfile.mkdtemp(), {"mail": AMIRA()}, classes=["ham", "spam"])
    >>> app.close()
    """
    beginnings = {name: Beginning.of(each, classes) for name, each in (models or {}).items()}
    opened = Models(data, beginnings, limits=limits, keep_log=keep_log, shadows=shadows)
    return Application(opened, token=token, hosts=hosts)


class Request(NamedTuple):
    """A request, for the model that its path names, if it is of one."""

    service: Any
    scope: Any
    headers: Headers
    receive: Any
    shadow: str

    def kind(self) -> str:
        """The content type of the body."""
        content_type = self.headers.get(b"content-type", b"").decode("latin-1")
        return content_type.partition(";")[0].strip().lower()

    def options(self) -> Mapping[str, str]:
        """The parameters in the query."""
        return QueryParams(self.scope["query_string"]) if self.scope["query_string"] else {}

    def address(self) -> str:
        """Where the client reached the server; the header Host may be any text."""
        host = self.headers.get(b"host", b"").decode("latin-1")
        if not HOST.fullmatch(host):
            raise bad_request("the header Host must be a name or an address, and may have a port.")
        prefix = urllib.parse.quote(self.scope.get("root_path", "").rstrip("/"))
        return f"{self.scope.get('scheme', 'http')}://{host}{prefix}"


Handler = Callable[[Request], Awaitable[Response]]
Work = Callable[[Request, str, bytes], Awaitable[Response]]  # with the content type and the body


class Application:
    """The ASGI application over some models; see `create_app`."""

    def __init__(
        self,
        models: Models,
        *,
        token: str | None = None,
        hosts: Collection[str] | None = LOOPBACK,
    ) -> None:
        self._process = os.getpid()
        self.models, self.guard = models, Guard(token, hosts)
        self.services = models.services
        self.default = models.default
        self.limits = next(iter(self.services.values())).limits
        self.reports = {name: status.Report(each) for name, each in self.services.items()}
        self.stopping = asyncio.Event()
        self.listeners = 0
        self._held_bytes = 0
        self._large = ThreadPoolExecutor(LARGE_AT_A_TIME, "maxmargin large bodies")
        self._routes: defaultdict[str, dict[str, tuple[Handler, Service | None]]] = defaultdict(
            dict
        )
        self._add_routes()
        models.start()

    def stop(self) -> None:
        """Refuse further events; to be called when the server begins to stop."""
        if self._is_forked():  # the models are those of the other process
            return
        self.models.stop()
        self.stopping.set()

    def close(self) -> None:
        """Finish the waiting requests, and write snapshots."""
        if self._is_forked():
            return
        self.stop()
        self.models.close()
        self._large.shutdown(wait=False)

    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def wait(self, seconds: float) -> None:
        """Wait until all logs are replayed, for at most that many seconds."""
        until = time.monotonic() + seconds
        for service in self.services.values():
            service.recovered.wait(max(0.0, until - time.monotonic()))

    def failure(self) -> Exception | None:
        """Why a model cannot go on, if that is so."""
        failures = (service.failure for service in self.services.values())
        return next((each for each in failures if each is not None), None)

    # ----------------------------------------------------------------------------------- requests
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if scope["type"] != "http":
            return
        path = scope["path"]
        root = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :] or "/"
        headers: Headers = dict(scope["headers"])
        try:
            if self._is_forked():
                raise HTTPError(503, FORKED)
            if path not in OPEN or self.guard.token is None:
                self.guard.check(headers)
            handler, service, shadow = self._found(scope["method"], path)
            response = await handler(Request(service, scope, headers, receive, shadow))
        except HTTPError as refusal:
            response = refused(refusal)
        except Exception:
            logger.exception("%s %s", scope["method"], scope["path"])
            response = refused(unavailable("an internal error occurred, and was logged."))
        await response(scope, receive, send)

    def _add_routes(self) -> None:
        """A handler for each operation of the OpenAPI document."""
        handlers: dict[str, Handler] = {
            "POST /learn": partial(self._post, self._learn),
            "POST /predict": partial(self._post, self._predict),
            "POST /label": partial(self._post, self._label),
            "GET /model": self._state,
            "GET /model/file": self._model_file,
            "GET /events": self._events,
            "POST /shadows": self._new_shadow,
            "DELETE /shadows/{shadow}": self._drop_shadow,
            "POST /promote": self._promote,
            "GET /health": self._health,
            "GET /models": self._models,
            "GET /metrics": self._metrics,
            "GET /": self._page,
            "GET /docs": self._docs,
            "GET /openapi.json": self._openapi,
        }
        for operation in openapi.OPERATIONS:
            handler = handlers[operation.route]
            method, path = operation.route.split()
            if operation.is_of_a_model:
                for name, service in self.services.items():
                    self._routes[f"/models/{name}{path}"][method] = handler, service
                if self.default is None:
                    handler = self._no_default
            self._routes[path][method] = handler, self.default

    def _found(self, method: str, path: str) -> tuple[Handler, Service | None, str]:
        """The handler of a request, its model, and the name of the shadow in the path."""
        shadow = ""
        methods = self._routes.get(path)
        if methods is None:
            above, _, shadow = path.rpartition("/")
            methods = self._routes.get(f"{above}/{{shadow}}")
        if methods is None:
            raise HTTPError(404, f"there is no {path}.")
        found = methods.get("GET" if method == "HEAD" else method)
        if found is None:
            raise HTTPError(405, f"{path} takes {' and '.join(methods)}.")
        return *found, shadow

    async def _no_default(self, request: Request) -> Response:
        raise HTTPError(
            404,
            f"none of the models {', '.join(self.services)} is the default: ask /models/NAME/..., "
            "or name the default first when the server is started.",
        )

    async def _post(self, work: Work, request: Request) -> Response:
        """The response to a request to learn or predict, which is counted and timed."""
        began = time.perf_counter()
        service = request.service
        report = self.reports[service.name]
        try:
            kind = request.kind()
            if kind not in KINDS:
                raise HTTPError(415, f"the content type must be one of {', '.join(KINDS)}.")
            if service.status != READY:
                raise service.not_ready()
            response = await work(request, kind, await self._body(request))
        except HTTPError:
            report.served["refused"] += 1
            raise
        what = "predict" if work == self._predict else "learn"
        report.served[what] += 1
        report.latencies[what].append(time.perf_counter() - began)
        return response

    async def _body(self, request: Request) -> bytes:
        """The body of a request, which must not be too large, nor come too slowly."""
        most, receive = self.limits.body_bytes, request.receive
        length = request.headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > most:
            raise HTTPError(413, f"the body has {int(length):,} bytes; at most {most:,} are taken.")
        with Deadline(self.limits.body_seconds):
            message = await receive()
            if message.get("more_body", False):
                return await self._parts(message, receive)
        body: bytes = message.get("body", b"")
        if len(body) > most:
            raise HTTPError(413, f"at most {most:,} bytes are taken.")
        return body

    async def _parts(self, message: Any, receive: Any) -> bytes:
        """A body that comes in parts, whose bytes are counted until the request is answered."""
        limits, body, held = self.limits, bytearray(), 0

        def release(_: Any) -> None:
            self._held_bytes -= held

        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(release)
        while True:
            if message["type"] == "http.disconnect":
                raise bad_request("the body is not complete.")
            part = message.get("body", b"")
            held += len(part)
            self._held_bytes += len(part)
            if held > (most := limits.body_bytes):
                raise HTTPError(413, f"the body has more than {most:,} bytes.")
            if self._held_bytes > limits.received_bytes:
                raise busy("too many large bodies come at once.")
            body += part
            if not message.get("more_body", False):
                return bytes(body)
            message = await receive()

    async def _computed(
        self, service: Service, kind: str, function: Callable[..., T], *arguments: Any
    ) -> T:
        """The result of a function of a body, its last argument; in a thread if that takes long.

        A small body in Arrow may be compressed, and one row may have the scores of many classes.
        """
        model = service.model
        if kind != ARROW and len(arguments[-1]) <= min(
            BYTES_IN_LOOP, SCORES_IN_LOOP // len(model.labels)
        ):
            return function(model, kind, *arguments)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._large, function, model, kind, *arguments)

    async def _learn(self, request: Request, kind: str, body: bytes) -> Response:
        service, key = request.service, request.headers.get(b"idempotency-key")
        given = None if key is None else key.decode("latin-1"), request.options(), body
        task = await self._computed(service, kind, requests.learn_task, *given)
        rows = task.lesson.rows
        result = await service.ask(task)
        if kind != ARROW:
            last = rows[-1]
            self.reports[service.name].example = last if type(last) is dict else last.tolist()
        return Answer(msgspec.json.encode(result), JSON)

    async def _label(self, request: Request, kind: str, body: bytes) -> Response:
        task = await self._computed(request.service, kind, requests.label_task, body)
        return Answer(msgspec.json.encode(await request.service.ask(task)), JSON)

    async def _predict(self, request: Request, kind: str, body: bytes) -> Response:
        content, waiting = await self._computed(
            request.service, kind, prediction_answers.answered, request.options(), body
        )
        if waiting is not None:
            await request.service.ask(waiting)
        return Answer(content, kind)

    # ------------------------------------------------------------------------------ other routes
    async def _state(self, request: Request) -> Response:
        return json_response(await self._state_of(request.service))

    async def _state_of(self, service: Service) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self.reports[service.name].state)

    async def _models(self, request: Request) -> Response:
        return json_response({"models": [report.summary() for report in self.reports.values()]})

    async def _metrics(self, request: Request) -> Response:
        loop = asyncio.get_running_loop()
        text = await loop.run_in_executor(None, status.metrics, self.reports)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def _health(self, request: Request) -> Response:
        for service in self.services.values():
            if service.status != READY:
                raise service.not_ready()
            if service.trouble:
                raise HTTPError(503, f"{service.name}: {service.trouble}", retry_after=1)
        return json_response({"status": "ok"})

    async def _model_file(self, request: Request) -> Response:
        service = request.service

        def written() -> tuple[bytes, int]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.mm"
                save(service.model.live.learner, path)
                return path.read_bytes(), service.model.sequence

        body, sequence = await service.ask(Call(written))
        headers = {
            "content-disposition": f'attachment; filename="{service.name}.mm"',
            "x-sequence": str(sequence),
        }
        return Response(body, media_type="application/octet-stream", headers=headers)

    async def _events(self, request: Request) -> Response:
        if self.listeners >= self.limits.listeners:
            raise busy(f"{self.listeners} listen already.", retry_after=10)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        kind = "text/event-stream"
        if request.scope["method"] == "HEAD":  # whose body is not sent
            return Response(None, headers=headers, media_type=kind)
        return StreamingResponse(self._states(request.service), media_type=kind, headers=headers)

    async def _states(self, service: Service) -> AsyncIterator[bytes]:
        self.listeners += 1
        try:
            while not self.stopping.is_set():
                state = await self._state_of(service)
                yield b"event: state\ndata: " + msgspec.json.encode(state) + b"\n\n"
                try:
                    await asyncio.wait_for(self.stopping.wait(), SECONDS_BETWEEN_STATES)
                except asyncio.TimeoutError:
                    continue
        finally:
            self.listeners -= 1

    async def _new_shadow(self, request: Request) -> Response:
        found = await self._read(bodies.ADD_SHADOW, request)
        if not NAME.fullmatch(found.name):
            raise bad_request(
                "name must have at most 64 letters, digits, '_', '.' and '-', and begin with a "
                "letter or digit."
            )
        event = NewShadow(found.name, found.algorithm, found.parameters or {}, self._ids(request))
        return json_response(await request.service.ask(ChangeShadows(event)), 201)

    async def _drop_shadow(self, request: Request) -> Response:
        event = DropShadow(request.shadow, self._ids(request))
        return json_response(await request.service.ask(ChangeShadows(event)))

    async def _promote(self, request: Request) -> Response:
        event = Promotion((await self._read(bodies.PROMOTE, request)).shadow, self._ids(request))
        return json_response(await request.service.ask(ChangeShadows(event)))

    async def _read(self, reader: bodies.Reader[Any], request: Request) -> Any:
        if request.kind() != JSON:
            raise HTTPError(415, f"the content type must be {JSON}.")
        body = await self._body(request)

        def read() -> Any:
            bodies.check_containers(body, rows=0)
            return reader.read(body)

        return await asyncio.get_running_loop().run_in_executor(self._large, read)

    def _ids(self, request: Request) -> tuple[str, ...]:
        key = request.headers.get(b"idempotency-key")
        return () if key is None else (checked_id(key.decode("latin-1"), self.limits.id_length),)

    async def _openapi(self, request: Request) -> Response:
        return json_response(openapi.document())

    async def _docs(self, request: Request) -> Response:
        body, headers = pages.docs(request.address())
        return Response(body, headers=headers)

    async def _page(self, request: Request) -> Response:
        body, headers = pages.live()
        return Response(body, headers=headers)

    async def _live(self, receive: Any, send: Any) -> None:
        """The lifespan protocol of ASGI."""
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                if self._is_forked():
                    await send({"type": "lifespan.startup.failed", "message": FORKED})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(None, self.close)
                await send({"type": "lifespan.shutdown.complete"})
                return


class Deadline:
    """Ends what the task that enters it waits for; `asyncio.timeout` is not in Python 3.10, and
    `asyncio.wait_for` makes a task for each body.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.is_over = seconds, False

    def __enter__(self) -> None:
        self.task = asyncio.current_task()
        self.timer = asyncio.get_running_loop().call_later(self.seconds, self._end)

    def _end(self) -> None:
        assert self.task is not None
        self.is_over = True
        self.task.cancel()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.timer.cancel()
        if self.is_over and kind is asyncio.CancelledError:
            if hasattr(self.task, "uncancel"):
                self.task.uncancel()  # type: ignore[union-attr]
            reason = f"the body did not come within {self.seconds:g} seconds."
            raise HTTPError(408, reason) from None


class Answer(Response):
    """A `Response` to a request that succeeded, made without its general code for headers."""

    def __init__(self, body: bytes, kind: str) -> None:
        self.status_code, self.body, self.background = 200, body, None
        self.raw_headers = [
            (b"content-type", kind.encode()),
            (b"content-length", b"%d" % len(body)),
        ]


def refused(refusal: HTTPError) -> Response:
    headers = {}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(refusal.body(), refusal.status, headers, media_type=JSON)


def json_response(content: Any, status: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)
