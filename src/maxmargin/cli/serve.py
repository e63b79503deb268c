"""``maxmargin serve``: learners behind an address."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import data, learner_options
from maxmargin.cli.errors import misuse, nearest, one_line_errors, require
from maxmargin.cli.fit import Settings

TOKEN = "MAXMARGIN_TOKEN"
# How often threads take turns: a prediction must not wait while others learn.
SECONDS_BETWEEN_SWITCHES = 0.001
BACKLOG = 2048
# A short log is replayed before the address is printed.
SECONDS_TO_REPLAY = 2.0


def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[[NAME=]MODEL]...",
            help="Model files (default: the models in the folder).",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder for logs and snapshots.")
    ] = ...,  # type: ignore[assignment]
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="Start with a new learner of this kind (default with --classes: AutoMargin).",
            autocompletion=learner_options.complete,
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    classes: Annotated[str | None, typer.Option(help="All labels, comma-separated.")] = None,
    shadow: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=ALGORITHM[,PARAMETER=VALUE]...", help="Second learner, for comparison."
        ),
    ] = [],  # noqa: B006
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that requests must send (default: ${TOKEN})."),
    ] = None,
    limit: Annotated[
        list[str],
        typer.Option(metavar="NAME=NUMBER", help="Set a limit of maxmargin.serve.Limits."),
    ] = [],  # noqa: B006
    keep_log: Annotated[
        bool, typer.Option("--keep-log", help="Keep all events, for maxmargin replay.")
    ] = False,
) -> None:
    """Serve models over HTTP that learn from events and log every one of them."""
    with one_line_errors():
        require("starlette", "uvicorn", "httptools", "msgspec", extra="serve")
        if algorithm is None and classes is not None and not models:
            algorithm = learner_options.DEFAULT
        if algorithm is None and settings:
            misuse("--set needs --classes with all labels: a model file has its own parameters.")
        if models and algorithm is not None:
            misuse("pass either model files or --algorithm, not both.")
        if algorithm is not None and classes is None:
            misuse("--algorithm needs --classes with all labels, such as --classes no,yes")
        learner = None if algorithm is None else learner_options.make(algorithm, settings)
        from maxmargin.serve import create_app
        from maxmargin.serve.auth import LOOPBACK, is_loopback

        token = read_token(token_file)
        if token is None and not is_loopback(host):
            misuse(
                f"anyone who can reach {host} could change the models: set a token with "
                f"--token-file or ${TOKEN}."
            )
        app = create_app(
            folder,
            {"default": learner} if learner is not None else loaded(models or []),
            classes=data.classes_of(classes),
            token=token,
            hosts={*LOOPBACK, host},
            keep_log=keep_log,
            shadows=parsed_shadows(shadow),
            limits=limits_of(limit),
        )
        run(app, host, port)


def loaded(models: list[str]) -> dict[str, Any]:
    from maxmargin.persistence import load
    from maxmargin.serve.registry import DEFAULT

    found: dict[str, Any] = {}
    for each in models:
        name, equals, path = each.partition("=")
        if not equals:
            name, path = DEFAULT, each
            if len(models) > 1:
                misuse(f"name each of several models: NAME={each}")
        if name in found:
            misuse(f"two models are called {name}.")
        found[name] = load(path)
    return found


def parsed_shadows(texts: list[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Algorithms and their parameters, by the names of the shadows."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        algorithm, *settings = rest.split(",")
        if not (name and algorithm) or not all("=" in each for each in settings):
            misuse(f"--shadow takes name=algorithm,parameter=value,...; got {text!r}.")
        if name in found:
            misuse(f"two shadows are called {name}.")
        pairs = (each.split("=", 1) for each in settings)
        parameters = {key.strip(): learner_options.value_of(value.strip()) for key, value in pairs}
        found[name] = algorithm, parameters
    return found


def limits_of(texts: list[str]) -> Any:
    """The default limits, with the given ones in their place."""
    from dataclasses import fields

    from maxmargin.serve import Limits

    types = {field.name: field.type for field in fields(Limits)}
    given: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in types:
            misuse(f"--limit takes name=number; got {text!r}: {nearest(name, types)}")
        number = learner_options.value_of(value)
        allowed = (int,) if types[name] == "int" else (int, float)
        if type(number) not in allowed or number <= 0:
            misuse(f"--limit {name} takes a positive number, got {value!r}.")
        given[name] = number
    return Limits(**given)


def read_token(path: Path | None) -> str | None:
    token = os.environ.get(TOKEN) if path is None else path.read_text("utf-8", "replace")
    if token is None:
        return None
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        misuse("the token is empty or contains characters that are not allowed in a header.")
    return token


def run(app: Any, host: str, port: int) -> None:
    """Listen until SIGTERM or Ctrl-C; then finish what has come."""
    import gc
    import signal
    import socket

    import uvicorn

    from maxmargin.serve.connections import limited_connections

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            app.stop()
            self.force_exit = self.should_exit and sig == signal.SIGINT
            self.should_exit = True

        async def on_tick(self, counter: int) -> bool:
            return await super().on_tick(counter) or app.failure() is not None

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)  # before the address is printed
    except OSError as error:
        app.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    config = uvicorn.Config(
        app,
        http=limited_connections(app.limits),
        ws="none",
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=10,
    )
    server = Server(config)
    sys.setswitchinterval(SECONDS_BETWEEN_SWITCHES)
    # Before the address is printed; uvicorn sets the same while it runs.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    app.wait(SECONDS_TO_REPLAY)
    if (why := app.failure()) is not None:
        app.close()
        raise ValueError(str(why))
    # What is imported stays: looking through it while a large body is read stops all threads.
    gc.collect()
    gc.freeze()
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Serving on http://{shown}:{listening.getsockname()[1]}")
    sys.stdout.flush()
    server.run(sockets=[listening])
    app.close()
    if (why := app.failure()) is not None:
        raise ValueError(str(why))
