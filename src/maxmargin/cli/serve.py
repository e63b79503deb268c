"""``maxmargin serve``: a learner behind an address."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from maxmargin.cli import data, learner_options
from maxmargin.cli.errors import misuse, one_line_errors, require
from maxmargin.cli.fit import Settings

LEARN_TOKEN, PREDICT_TOKEN = "MAXMARGIN_LEARN_TOKEN", "MAXMARGIN_PREDICT_TOKEN"
# How often threads take turns: a prediction must not wait while others learn.
SECONDS_BETWEEN_SWITCHES = 0.001
# A few events are replayed before the address is printed.
SECONDS_TO_REPLAY = 2.0
# Files that are not connections: the database, libraries, and what uvicorn opens.
OTHER_FILES = 64


def serve(
    model: Annotated[
        Path | None,
        typer.Argument(help="Model file to begin with (default: the model in the folder)."),
    ] = None,
    folder: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Folder of the database.")
    ] = ...,  # type: ignore[assignment]
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="Begin with a new learner of this kind (default with --classes: AutoMargin).",
            autocompletion=learner_options.complete,
        ),
    ] = None,
    settings: Settings = [],  # noqa: B006
    classes: Annotated[str | None, typer.Option(help="All labels, comma-separated.")] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Give prediction sets with this coverage, such as 0.9.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8765,
    learn_token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token for all requests (default: ${LEARN_TOKEN})."),
    ] = None,
    predict_token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the token for requests that teach nothing (default: ${PREDICT_TOKEN})."
        ),
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Least level to log.")
    ] = "info",
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Format of logs.")] = "text",
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request.")] = False,
) -> None:
    """Serve a model over HTTP that learns from events and stores every one of them."""
    with one_line_errors():
        require("starlette", "uvicorn", "httptools", "msgspec", extra="serve")
        if algorithm is None and classes is not None and model is None:
            algorithm = learner_options.DEFAULT
        if algorithm is None and settings:
            misuse("--set needs --classes with all labels: a model file has its own parameters.")
        if model is not None and algorithm is not None:
            misuse("pass either a model file or --algorithm, not both.")
        if algorithm is not None and classes is None:
            from maxmargin.serve.database import FILE

            if (folder / FILE).exists():
                misuse(f"{folder} has a model already: leave --algorithm out to go on with it.")
            misuse("--algorithm needs --classes with all labels, such as --classes no,yes")
        learner = None if algorithm is None else learner_options.make(algorithm, settings)
        if model is not None:
            from maxmargin.persistence import load

            learner = load(model)
        tokens = (
            read_token(learn_token_file, LEARN_TOKEN),
            read_token(predict_token_file, PREDICT_TOKEN),
        )
        from maxmargin.serve import create_app
        from maxmargin.serve.access import LOOPBACK, configure_logging, is_loopback

        if tokens == (None, None) and not is_loopback(host):
            misuse(
                f"anyone who can reach {host} could change the model: set a token with "
                f"--learn-token-file or ${LEARN_TOKEN}."
            )
        configure_logging(log_level, log_format, access_log=access_log)
        app = create_app(
            folder,
            learner,
            classes=data.classes_of(classes),
            coverage=coverage,
            learn_token=tokens[0],
            predict_token=tokens[1],
            hosts={*LOOPBACK, host},
            on_failure=stop_process,
        )
        run(app, host, port)


def read_token(path: Path | None, variable: str) -> str | None:
    token = os.environ.get(variable) if path is None else path.read_text("utf-8", "replace")
    if token is None:
        return None
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable():
        misuse("the token is empty or contains characters that are not allowed in a header.")
    return token


def stop_process() -> None:
    import signal

    os.kill(os.getpid(), signal.SIGTERM)


def run(app: Any, host: str, port: int) -> None:
    """Listen until SIGTERM or Ctrl-C; then finish what has come."""
    import gc
    import signal
    import socket

    import uvicorn

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)  # before the address is printed
    except OSError as error:
        app.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        limit_concurrency=most_connections(),
        timeout_keep_alive=75,
        timeout_graceful_shutdown=10,
    )
    server = uvicorn.Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them once more when it ends
        signal.signal(number, lambda *_: setattr(server, "should_exit", True))
    sys.setswitchinterval(SECONDS_BETWEEN_SWITCHES)
    app.wait(SECONDS_TO_REPLAY)
    # What is imported stays: looking through it while a large body is read stops all threads.
    gc.collect()
    gc.freeze()
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"Serving on http://{shown}:{listening.getsockname()[1]}")
    sys.stdout.flush()
    server.run(sockets=[listening])
    app.close()
    if (why := app.service.failure) is not None:
        raise ValueError(f"the server has failed: {why}")


def most_connections() -> int:
    """So many that files can still be opened."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 500
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1000 if soft == resource.RLIM_INFINITY else max(8, min(1000, soft - OTHER_FILES))
