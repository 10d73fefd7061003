"""A model behind HTTP.

- ``Service``            what is answered, as a Starlette application
- ``RequestLimits``             how much a request may ask for
- ``listen``, ``run_until_stopped``  the socket, and the server upon it

==================  ==========================================================================================
POST /predict       ``{"rows": [{column: value, …}, …]}`` or ``{"columns": […], "data": [[…], …]}``
GET /schema         columns, their kinds and categories, classes, limits
GET /openapi.json   the same for programs that write clients
GET /health         whether it is up; asks for no token
GET / and /docs     a page to read and to try it
==================  ==========================================================================================

Every answer but the page is JSON; one that refuses says why, and all of why: ``{"error": …, "problems": […]}``.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import socket
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import BadInput, SylvaError
from nodes.models.fast_predict import with_fast_predict
from nodes.models.model import FittedModel
from nodes.models.rows import RowReader, UnfitRows, shown
from ui.rest.batching import RequestBatcher
from ui.rest.connections import ACCEPTED_AT_ONCE, Connection, Trouble, make_room
from ui.rest.openapi import describe_service
from ui.rest.page import HEADERS, PAGE

if TYPE_CHECKING:
    import numpy as np
    from starlette.requests import Request

SMALL_BODY = 64 << 10
"""Bytes up to which a request is answered beside larger ones, not after them; as many are answered together."""
FEW_ROWS = 64
"""Rows for which one thread is enough."""
BODIES_AT_ONCE = 4
"""How many requests of the largest size may be held in memory; whoever comes beyond that is asked to come again."""
BODY_SECONDS = 30.0
GOODBYE_SECONDS = 10
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class RequestLimits:
    """How much a request may ask for."""

    rows: int = 10_000
    body: int = 16_000_000
    """Bytes."""


class Refusal(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str, problems: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.problems = status, message, problems or []


class Service:
    """Answers requests about one model."""

    def __init__(
        self,
        name: str,
        model: FittedModel,
        *,
        token: str | None = None,
        limits: RequestLimits | None = None,
        threads: int | None = None,
    ) -> None:
        self.name, self.model = name, with_fast_predict(model)
        self.limits = limits or RequestLimits()
        self._token = token.encode() if token else None
        self._threads = threads or len(os.sched_getaffinity(0))
        self._reader = RowReader(model.encoder, model.precision)
        self._received = 0
        # One thread for the many small requests, one for the large: neither waits for the other.
        self._small, self._large = (
            RequestBatcher(self.answers, SMALL_BODY),
            ThreadPoolExecutor(1, thread_name_prefix="large"),
        )

    def warm_up(self) -> None:
        """Predict a row, so that the first request does not wait until compiled code is loaded."""
        import numpy as np

        self._predicted([np.zeros((1, self.model.encoder.width), self.model.precision)])

    # What it answers

    def answers(self, bodies: Sequence[bytes]) -> list[bytes | Exception]:
        """For each request's body the predictions as JSON, or why there are none: ``Refusal`` if it is at fault.

        All their rows are predicted at once; what is wrong with one body is nothing to the others.
        """
        try:
            read = [self._matrix(body) for body in bodies]
            matrices = [matrix for matrix in read if not isinstance(matrix, Refusal)]
            predicted = iter(self._predicted(matrices))
            return [each if isinstance(each, Refusal) else self._told(next(predicted)) for each in read]
        except Exception as error:
            return [error] if len(bodies) == 1 else [self.answers([body])[0] for body in bodies]

    def _answer(self, body: bytes) -> bytes:
        (answer,) = self.answers([body])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _matrix(self, body: bytes) -> np.ndarray | Refusal:
        try:
            return self._reader.matrix(self._rows(_read_json(body)))
        except Refusal as refusal:
            return refusal
        except UnfitRows as unfit:
            return Refusal(422, "The rows do not fit the model.", [asdict(problem) for problem in unfit.problems])

    def _predicted(self, matrices: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The probabilities of each matrix."""
        import numpy as np

        counts = [len(matrix) for matrix in matrices]
        if not any(counts):
            return [np.empty((0, len(self.model.classes)))] * len(matrices)
        together = matrices[0] if len(matrices) == 1 else np.concatenate(matrices)
        threads = 1 if len(together) <= FEW_ROWS else self._threads
        probabilities = self.model.predict_matrix(together, threads)
        return [probabilities[end - count : end] for count, end in zip(counts, accumulate(counts), strict=True)]

    def _told(self, probabilities: np.ndarray) -> bytes:
        classes = self.model.classes
        predictions = [
            {"prediction": classes[place], "probabilities": dict(zip(classes, line, strict=True))}
            for place, line in zip(probabilities.argmax(axis=1).tolist(), probabilities.tolist(), strict=True)
        ]
        return _as_json({"model": self.name, "classes": classes, "predictions": predictions})

    def _rows(self, request: Any) -> list[Any]:
        match request:
            case {"rows": list() as rows}:
                self._check_number(rows)
                return rows
            case {"columns": list() as columns, "data": list() as data}:
                self._check_number(data)
                return _rows_of(columns, data)
        raise Refusal(
            422, 'Give an object {"rows": [{column: value, …}, …]} or {"columns": [name, …], "data": [[value, …], …]}.'
        )

    def _check_number(self, rows: list[Any]) -> None:
        if len(rows) > self.limits.rows:
            raise Refusal(
                413, f"{len(rows):,} rows are more than the {self.limits.rows:,} of one request; send them in parts."
            )

    @cached_property
    def schema(self) -> dict[str, Any]:
        """What a row has to hold, and what comes back."""
        return {
            "model": self.name,
            "title": self.model.title,
            "kind": self.model.kind.name,
            "trained_on_rows": self.model.train_rows,
            "classes": self.model.classes,
            "columns": self._reader.describe(),
            "batch_limit": self.limits.rows,
            "body_limit": self.limits.body,
        }

    @cached_property
    def openapi(self) -> dict[str, Any]:
        """The service in the words of OpenAPI 3.1."""
        return describe_service(self.schema, with_token=self._token is not None)

    # How it is asked

    @cached_property
    def app(self) -> Starlette:
        """The application; ``announce`` of ``run_until_stopped`` is called when it is up."""
        schema, openapi = _as_json(self.schema), _as_json(self.openapi)
        routes = [
            Route("/predict", self._predict, methods=["POST"]),
            Route("/health", self._health),
            Route("/schema", self._open(schema)),
            Route("/openapi.json", self._open(openapi)),
            Route("/", self._page),
            Route("/docs", self._page),
        ]
        handlers: Mapping[Any, Any] = {
            Refusal: _refused,
            HTTPException: _not_found,
            ClientDisconnect: _gone,
            Exception: _failed,
        }
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=self._life)

    announce: Callable[[], None] = staticmethod(lambda: None)

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(Trouble())
        self.announce()
        yield
        self._small.close()
        self._large.shutdown(wait=True, cancel_futures=True)

    async def _predict(self, request: Request) -> Response:
        self._check_caller(request)
        _check_type(request)
        body = await self._body(request)
        try:
            if len(body) <= SMALL_BODY:
                answer = await self._small.ask(body)
            else:
                answer = await asyncio.get_running_loop().run_in_executor(self._large, self._answer, body)
        finally:
            self._received -= len(body)
        return Response(answer, media_type="application/json")

    async def _health(self, request: Request) -> Response:
        return _json_response({"status": "ok"})

    async def _page(self, request: Request) -> Response:
        self._check_host(request)
        return Response(PAGE, media_type="text/html", headers=HEADERS)

    def _open(self, content: bytes) -> Callable[[Request], Any]:
        async def give(request: Request) -> Response:
            self._check_caller(request)
            return Response(content, media_type="application/json")

        return give

    def _check_caller(self, request: Request) -> None:
        self._check_host(request)
        if self._token is None:
            return
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            raise Refusal(401, "Send the token as 'Authorization: Bearer TOKEN'.")

    def _check_host(self, request: Request) -> None:
        """Without a token, only callers that name this machine: a web page may have a name that leads here."""
        if self._token is None:
            host, origin = (request.headers.get(header, "").lower() for header in ("host", "origin"))
            name = host if host.endswith("]") else host.rpartition(":")[0] or host
            if name not in LOOPBACK:
                raise Refusal(403, "Without a token, this service is only for 127.0.0.1 and localhost.")
            if origin and origin.partition("://")[2] != host:
                raise Refusal(403, "Without a token, this service is not for pages of other addresses.")

    async def _body(self, request: Request) -> bytes:
        """All of the body, counted in ``_received`` until it is answered."""
        told = request.headers.get("content-length", "")
        if told.isdecimal() and int(told) > self.limits.body:
            raise self._too_large()
        parts: list[bytes] = []
        length = 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    parts.append(part)
                    length += len(part)
                    self._received += len(part)
                    if length > self.limits.body:
                        raise self._too_large()
                    if self._received > BODIES_AT_ONCE * self.limits.body:
                        raise Refusal(503, "There are too many large requests; try again shortly.")
        except BaseException as error:
            self._received -= length
            if isinstance(error, TimeoutError):
                raise Refusal(408, f"The request did not arrive within {BODY_SECONDS:.0f} s.") from None
            raise
        return b"".join(parts)

    def _too_large(self) -> Refusal:
        return Refusal(413, f"The request is larger than {self.limits.body / 1e6:g} MB; send the rows in parts.")


def _check_type(request: Request) -> None:
    """Only JSON that says so, or says nothing: all else a page of others could send without being asked."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("", "application/json"):
        raise Refusal(415, f"The request is {shown(kind)}; send JSON, with 'Content-Type: application/json'.")


def _read_json(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_no_number)
    except RecursionError:
        raise Refusal(400, "The request is nested too deeply.") from None
    except ValueError as error:  # also of bytes that are no text, and of numbers of thousands of digits
        raise Refusal(400, f"The request is no JSON: {error}.") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON; give null for a missing value")


def _rows_of(columns: list[Any], data: list[Any]) -> list[Any]:
    """Rows of named values, of lines of values."""
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        raise Refusal(422, "'columns' must be different names.")
    problems: list[dict[str, Any]] = []
    for number, line in enumerate(data, start=1):
        if not isinstance(line, list) or len(line) != len(columns):
            given = f"{len(line)} values" if isinstance(line, list) else shown(line)
            message = f"the row has {given} where {len(columns)} are expected"
            problems.append({"row": number, "column": None, "message": message})
    if problems:
        raise Refusal(422, "The rows do not fit the columns.", problems[:100])
    return [dict(zip(columns, line, strict=True)) for line in data]


def _as_json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_as_json(value), status, dict(headers or {}), media_type="application/json")


HINTS = {401: {"WWW-Authenticate": "Bearer"}, 413: {"Connection": "close"}, 503: {"Retry-After": "1"}}
"""Headers that go with a refusal; the rest of what is too large is not read."""


async def _refused(request: Request, error: Refusal) -> Response:
    answer = {"error": error.message, "problems": error.problems}
    return _json_response(answer, error.status, HINTS.get(error.status))


async def _not_found(request: Request, error: HTTPException) -> Response:
    words = {404: "There is nothing at this address; / says what there is.", 405: "This address takes another method."}
    message = words.get(error.status_code, error.detail)
    return _json_response({"error": message, "problems": []}, error.status_code, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """No one is there to be answered."""
    return Response(status_code=400)


async def _failed(request: Request, error: Exception) -> Response:
    traceback.print_exception(error, file=sys.stderr)
    return _json_response({"error": "The service failed at this request; its log says why.", "problems": []}, 500)


# The server


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on; they are answered once the server is up."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # With the protocol named, what is written is sent at once: asyncio sees to it for such sockets only.
        opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        raise BadInput(f"There is no address '{host}' to listen on: {error}.") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except OSError as error:
        opened.close()
        raise SylvaError(
            f"{host}:{port} cannot be listened on: {error.strerror}. Choose another --port, or 0 for a free one."
        ) from error
    return opened


def run_until_stopped(service: Service, opened: socket.socket, announce: Callable[[], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C; what is under way is then finished."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            super().handle_exit(sig, frame)
            self._captured_signals.clear()  # else it would kill itself by the signal after a good end

    make_room()
    service.warm_up()
    service.announce = announce
    config = uvicorn.Config(
        service.app,
        http=Connection,
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
    Server(config).run(sockets=[opened])
