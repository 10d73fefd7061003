"""Serve the predictions of one model over HTTP, with FastAPI.

==================  ================================================================================
POST /predict       ``{"rows": [{column: value, …}, …]}`` or ``{"columns": […], "data": [[…], …]}``,
                    with ``"explain": true`` also the contribution of each column
GET /schema         columns with their kinds and categories, classes, limits
GET /openapi.json   the OpenAPI document, for programs that write clients
GET /health         whether the service is running; needs no token
GET / and /docs     a page to read about the model and to try it
==================  ================================================================================

An error is JSON as in every FastAPI service: ``{"detail": message}``. With status 422, ``detail``
lists all problems of the rows.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect

from engine.errors import BadInput, SylvaError
from engine.pipeline_file import parse_integer
from engine.text import shown
from nodes.models.explanations import explain_rows
from nodes.models.fast_predict import with_fast_predict
from nodes.models.model import FittedModel
from nodes.models.rows import RowProblem, RowReader, UnfitRows
from ui.rest.batching import RequestBatcher

SMALL_BODY = 64 << 10
"""Bytes up to which a request is small. Small requests do not wait for large ones."""
FEW_ROWS = 64
"""Rows for which one thread is enough."""
LARGE_BODIES = 4
"""Requests of the maximal size that may be in memory at once."""
BODY_SECONDS = 30.0
SHUTDOWN_SECONDS = 10
MAX_CONNECTIONS = 512
MAX_PROBLEMS = 100
EXPLAINED_ROWS = 100
"""Rows of a request that may be explained: it takes far longer than a prediction."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

PAGE = Path(__file__).with_name("page.html").read_text("utf-8")
_SCRIPT = PAGE.partition("<script>")[2].partition("</script>")[0]
_SCRIPT_HASH = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
PAGE_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_SCRIPT_HASH}'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Only the page's own script may run, and it may call this service only."""

BEARER = HTTPBearer(scheme_name="token", auto_error=False)


@dataclass(frozen=True)
class RequestLimits:
    """How large a request may be."""

    rows: int = 10_000
    body: int = 16_000_000
    """Bytes."""


@dataclass(frozen=True)
class EncodedRequest:
    """Hold the rows of a request as a matrix, and whether they are to be explained."""

    matrix: np.ndarray
    explain: bool


class Explanation(BaseModel):
    """How much each column contributes to the probability of a class.

    Base and contributions add up to the probability.
    """

    explained_class: str | None = Field(None, alias="class")
    base: float
    contributions: dict[str, float]


class Prediction(BaseModel):
    """The predicted class of a row and the probability of each class, or the predicted number.

    There is an explanation only if the request asks for it.
    """

    prediction: str | float
    probabilities: dict[str, float] = Field(
        default_factory=dict, description="Not in the answer of a model that predicts a number."
    )
    explanation: Explanation | None = None


class PredictResponse(BaseModel):
    """The answer to a request: one prediction per row."""

    model: str
    classes: list[str]
    predictions: list[Prediction]


ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "The body is not valid JSON"},
    401: {"description": "The token is missing or wrong"},
    413: {"description": "Too many rows or bytes"},
    415: {"description": "The content type is not JSON"},
    422: {"description": "Columns are missing or values have a wrong type; 'detail' lists them"},
}
WRONG_ADDRESS = {
    404: "There is nothing at this address; / says what there is.",
    405: "This address does not take this method; / says what there is.",
}
"""The message of each status that an address or a method which does not exist is answered with."""
PREDICT_DESCRIPTION = (
    "Send the rows as a list of objects that name the value of each column. `null` is a missing "
    "value; columns that the model does not use are ignored. The answer has one prediction per "
    "row, in the same order: the most probable class, or that of the threshold that was saved with "
    "the model. `GET /schema` lists the threshold, the columns and the limits. With `explain`, "
    "each prediction also has a base value and the contribution of each column, which add up to "
    "the probability of the explained class: of two classes the positive one, of more the "
    "predicted one."
)
COLUMN_TYPES = {
    "category": ["string", "null"],
    "time": ["string", "null"],
    "bool": ["boolean", "number", "null"],
}
"""JSON types of a value; every other kind of column is a number."""


class Service:
    """Answer requests for predictions of one model.

    Parameters
    ----------
    name : the name of the model, for answers and the page
    token : what callers must send; without it only callers on this machine are answered
    limits : how large a request may be
    threads : for predictions of many rows; by default one per core
    """

    def __init__(
        self,
        name: str,
        model: FittedModel,
        *,
        token: str | None = None,
        limits: RequestLimits | None = None,
        threads: int | None = None,
    ) -> None:
        self.name = name
        self.model = with_fast_predict(model)
        self.limits = limits or RequestLimits()
        self._token = token
        self._threads = threads or len(os.sched_getaffinity(0))
        self._reader = RowReader(model.encoder, model.precision)
        # Only the event loop changes it, so it needs no lock.
        self._bytes_held = 0
        # A large body is a batch of its own, so one limit is enough for both.
        self._small_requests = RequestBatcher(self.answers, SMALL_BODY)
        self._large_requests = RequestBatcher(self.answers, SMALL_BODY)

    def warm_up(self) -> None:
        """Predict one row, so that the first request does not wait for compiled code to load."""
        matrix = np.zeros((1, self.model.encoder.width), self.model.precision)
        self._probabilities([matrix])

    def answers(self, bodies: Sequence[bytes]) -> list[bytes | Exception]:
        """Return for each body the predictions as JSON, or the exception to raise for it.

        The rows of all bodies are predicted in one call. If that fails, each body is tried alone,
        so that only the request that causes the failure gets it.
        """
        try:
            requests = [self._request(body) for body in bodies]
            valid = [each.matrix for each in requests if not isinstance(each, HTTPException)]
            probabilities = iter(self._probabilities(valid))
            return [
                each if isinstance(each, HTTPException) else self._answer(each, next(probabilities))
                for each in requests
            ]
        except Exception as error:
            if len(bodies) == 1:
                return [error]
            return [self.answers([body])[0] for body in bodies]

    def _request(self, body: bytes) -> EncodedRequest | HTTPException:
        """Return the rows of a request as a matrix, or the error to answer with."""
        try:
            request = _parse_json(body)
            rows = self._rows(request)
            return EncodedRequest(self._reader.matrix(rows), self._explains(request, rows))
        except UnfitRows as error:
            return _invalid_rows(error.problems, "rows" if "rows" in request else "data")
        except HTTPException as error:
            return error

    def _rows(self, request: Any) -> list[Any]:
        """Return the rows of a request in either form; raise ``HTTPException`` for any other."""
        match request:
            case {"rows": list() as rows}:
                self._check_row_count(rows)
                return rows
            case {"columns": list() as columns, "data": list() as data}:
                self._check_row_count(data)
                return _named_rows(columns, data)
        message = (
            'Send an object {"rows": [{column: value, …}, …]} '
            'or {"columns": [name, …], "data": [[value, …], …]}.'
        )
        raise HTTPException(422, [_problem(message)])

    def _explains(self, request: Mapping[str, Any], rows: list[Any]) -> bool:
        """Return whether explanations are wanted; raise ``HTTPException`` if not possible."""
        explain = request.get("explain", False)
        if not isinstance(explain, bool):
            message = f"'explain' must be true or false, not {shown(explain)}."
            raise HTTPException(422, [_problem(message, "explain")])
        if not explain:
            return False
        try:
            self.model.check_explainable()
        except BadInput as error:
            raise HTTPException(422, [_problem(error.message, "explain")]) from None
        if len(rows) > EXPLAINED_ROWS:
            raise HTTPException(
                413,
                f"The request has {len(rows):,} rows to explain; at most {EXPLAINED_ROWS} are "
                "allowed. Send them in several requests.",
            )
        return True

    def _check_row_count(self, rows: list[Any]) -> None:
        """Raise ``HTTPException`` if there are too many rows."""
        if len(rows) > self.limits.rows:
            raise HTTPException(
                413,
                f"The request has {len(rows):,} rows; at most {self.limits.rows:,} are allowed. "
                "Send them in several requests.",
            )

    def _probabilities(self, matrices: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the class probabilities of the rows of each matrix."""
        counts = [len(matrix) for matrix in matrices]
        if not any(counts):
            return [np.empty((0, self.model.n_outputs))] * len(matrices)
        rows = matrices[0] if len(matrices) == 1 else np.concatenate(matrices)
        # Starting threads takes longer than predicting a few rows.
        threads = 1 if len(rows) <= FEW_ROWS else self._threads
        probabilities = self.model.predict_matrix(rows, threads)
        ends = accumulate(counts)
        return [probabilities[end - count : end] for count, end in zip(counts, ends, strict=True)]

    def _answer(self, request: EncodedRequest, probabilities: np.ndarray) -> bytes:
        """Return the predictions for the rows of one request as JSON."""
        classes = self.model.classes
        if not classes:
            numbers = probabilities[:, 0].tolist()
            return self._write_answer(request, probabilities, [{"prediction": n} for n in numbers])
        # Lists, not arrays: JSON writes Python's numbers, and converts a whole array faster.
        predicted = self.model.predicted_codes(probabilities).tolist()
        predictions: list[dict[str, Any]] = [
            {"prediction": classes[index], "probabilities": dict(zip(classes, row, strict=True))}
            for index, row in zip(predicted, probabilities.tolist(), strict=True)
        ]
        return self._write_answer(request, probabilities, predictions)

    def _write_answer(
        self,
        request: EncodedRequest,
        probabilities: np.ndarray,
        predictions: list[dict[str, Any]],
    ) -> bytes:
        """Return the predictions as JSON, with the explanations if they are asked for."""
        if request.explain:
            threads = 1 if len(predictions) == 1 else self._threads
            explained = explain_rows(self.model, request.matrix, probabilities, threads)
            for prediction, explanation in zip(predictions, explained.to_json(), strict=True):
                prediction["explanation"] = explanation
        answer = {
            "model": self.name,
            "classes": self.model.classes,
            "predictions": predictions,
        }
        return json.dumps(answer, allow_nan=False, separators=(",", ":")).encode()

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Return what a row must contain and what an answer contains, as ``GET /schema`` does."""
        decision, calibration = self.model.decision, self.model.calibration
        return {
            "model": self.name,
            "title": self.model.title,
            "kind": self.model.kind.name,
            "trained_on_rows": self.model.train_rows,
            "task": self.model.task,
            "classes": self.model.classes,
            # Without one, the prediction is the most probable class.
            "decision": None if decision is None else decision.to_json(),
            "calibration": None if calibration is None else calibration.method,
            "columns": self._reader.describe(),
            "batch_limit": self.limits.rows,
            "body_limit": self.limits.body,
        }

    # HTTP

    def make_app(self, on_start: Callable[[], None] | None = None) -> FastAPI:
        """Return the application; ``on_start`` is called when it is ready for requests."""

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            """Report that the service is ready; at the end, finish the running batches."""
            if on_start is not None:
                on_start()
            yield
            self._small_requests.close()
            self._large_requests.close()

        # The page and the OpenAPI document are routes below: they need the same checks as the rest.
        # Routes have no docstrings: FastAPI would publish them as descriptions.
        title = f"{self.name}: {self.model.title}"
        app = FastAPI(title=title, version="1", openapi_url=None, lifespan=lifespan)
        checks = [Depends(self._check_caller)]
        if self._token is not None:
            checks.append(Depends(BEARER))  # adds the token to the OpenAPI document

        app.router.add_api_route(
            "/predict",
            self._predict,
            methods=["POST"],
            summary="The class of each row and the probability of each class",
            description=PREDICT_DESCRIPTION,
            dependencies=checks,
            response_model=PredictResponse,
            responses=ERRORS,
            openapi_extra={"requestBody": _request_schema(self.schema)},
            route_class_override=DirectRoute,
        )

        @app.head("/health", include_in_schema=False)
        @app.get("/health", summary="Whether the service is running")
        async def health() -> dict[str, str]:
            return {"status": "ok"}

        @app.head("/schema", include_in_schema=False, dependencies=checks)
        @app.get("/schema", summary="Columns, classes and limits", dependencies=checks)
        async def schema() -> dict[str, Any]:
            return self.schema

        @app.head("/openapi.json", include_in_schema=False, dependencies=checks)
        @app.get("/openapi.json", include_in_schema=False, dependencies=checks)
        async def openapi() -> JSONResponse:
            return JSONResponse(app.openapi())

        @app.head("/docs", include_in_schema=False)
        @app.get("/docs", include_in_schema=False)
        @app.head("/", include_in_schema=False)
        @app.get("/", include_in_schema=False)
        async def page(request: Request) -> Response:
            self._check_local(request)
            return Response(PAGE, media_type="text/html", headers=PAGE_HEADERS)

        for status, message in WRONG_ADDRESS.items():
            app.add_exception_handler(status, _always_answer(message))
        return app

    async def _predict(self, request: Request) -> Response:
        """Answer ``POST /predict``.

        Small and large requests have batchers of their own, so that a small one does not wait for a
        large one.
        """
        # Before the body is read: a caller without a token must not fill the memory.
        await self._check_caller(request)
        _check_content_type(request)
        body = bytearray()
        try:
            await self._read_body(request, body)
            # Explanations take long, too: other small requests must not wait for them.
            is_small = len(body) <= SMALL_BODY and b'"explain"' not in body
            batcher = self._small_requests if is_small else self._large_requests
            answer = await batcher.submit(bytes(body))
        finally:
            # Also after an error: the bytes are no longer in memory.
            self._bytes_held -= len(body)
        return Response(answer, media_type="application/json")

    async def _read_body(self, request: Request, body: bytearray) -> None:
        """Append the parts of the body; the bytes count as held until the request is answered."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    body += part
                    self._bytes_held += len(part)
                    self._check_body_size(len(body))
        except TimeoutError:
            message = f"The request did not arrive within {BODY_SECONDS:.0f} s."
            raise HTTPException(408, message) from None
        except ClientDisconnect:
            raise HTTPException(400, "The connection was closed during the request.") from None

    def _check_body_size(self, size: int) -> None:
        """Raise ``HTTPException`` if this body, or all bodies in memory, are too large."""
        if size > self.limits.body:
            raise HTTPException(
                413,
                f"The request is larger than {self.limits.body / 1e6:g} MB. "
                "Send the rows in several requests.",
                {"Connection": "close"},  # the rest of the body is not read
            )
        if self._bytes_held > LARGE_BODIES * self.limits.body:
            message = "Too many large requests are in progress. Try again in a second."
            raise HTTPException(503, message, {"Retry-After": "1"})

    async def _check_caller(self, request: Request) -> None:
        """Raise ``HTTPException`` unless the caller may use the service."""
        if self._token is None:
            self._check_local(request)
            return
        credentials = await BEARER(request)
        sent = "" if credentials is None else credentials.credentials
        # It takes the same time for every wrong token, so the time tells nothing.
        if not hmac.compare_digest(sent.strip().encode(), self._token.encode()):
            message = "Send the token as 'Authorization: Bearer TOKEN'."
            raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})

    def _check_local(self, request: Request) -> None:
        """Refuse a caller that does not name this machine, unless there is a token.

        It keeps web pages of other sites out: the host name of such a page may lead to 127.0.0.1,
        and a browser sends the address of the page as ``Origin``.
        """
        if self._token is not None:
            return
        host = request.headers.get("host", "").lower()
        origin = request.headers.get("origin", "").lower()
        # Without the port; an IPv6 address has colons of its own, inside brackets.
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in LOOPBACK:
            message = "Without a token, this service answers only at 127.0.0.1 and localhost."
            raise HTTPException(403, message)
        if origin and origin.partition("://")[2] != host:
            message = "Without a token, this service does not answer web pages of other sites."
            raise HTTPException(403, message)


class DirectRoute(APIRoute):
    """A route that calls its endpoint with the request.

    The endpoint does its own checks before it reads the body. FastAPI would read and parse the body
    first, and its dependencies would take 0.1 ms, a third of the work for one row.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint itself."""
        return self.endpoint


def _always_answer(message: str) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    """Return a handler that answers an ``HTTPException`` with ``message`` as its text."""

    async def answer(request: Request, error: HTTPException) -> Response:
        """Return the error as JSON; its headers name the methods that are allowed."""
        return JSONResponse({"detail": message}, error.status_code, error.headers)

    return answer


def _check_content_type(request: Request) -> None:
    """Refuse the content types that a web form can send to any address."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in ("", "application/json"):
        raise HTTPException(
            415,
            f"The content type is {shown(content_type)}. "
            "Send JSON with 'Content-Type: application/json'.",
        )


def _parse_json(body: bytes) -> Any:
    """Return the parsed body; raise ``HTTPException`` if it is not valid JSON."""
    try:
        return json.loads(body, parse_int=parse_integer, parse_constant=_refuse_constant)
    except RecursionError:
        raise HTTPException(400, "The request is nested too deeply.") from None
    except ValueError as error:  # also: bytes that are not text
        raise HTTPException(400, f"The request is not valid JSON: {error}.") from None


def _refuse_constant(text: str) -> float:
    """Raise ``ValueError`` for NaN and Infinity, which Python reads but JSON does not have."""
    raise ValueError(f"{text} is not a JSON number; send null for a missing value")


def _named_rows(columns: list[Any], data: list[Any]) -> list[dict[str, Any]]:
    """Return lists of values as rows with named values."""
    if not all(isinstance(name, str) for name in columns) or len(set(columns)) < len(columns):
        message = "'columns' must be a list of names, each used once."
        raise HTTPException(422, [_problem(message, "columns")])
    problems = []
    for number, values in enumerate(data, start=1):
        if not isinstance(values, list):
            problems.append(RowProblem(number, None, f"expected a list, not {shown(values)}"))
        elif len(values) != len(columns):
            message = f"the row has {len(values)} values; expected {len(columns)}"
            problems.append(RowProblem(number, None, message))
    if problems:
        raise UnfitRows(problems[:MAX_PROBLEMS])
    return [dict(zip(columns, values, strict=True)) for values in data]


def _problem(message: str, *loc: str | int) -> dict[str, Any]:
    """Return one entry of ``detail``, in the form of FastAPI's own validation errors."""
    return {"type": "value_error", "loc": ["body", *loc], "msg": message}


def _invalid_rows(problems: Sequence[RowProblem], key: str) -> HTTPException:
    """Return the error that lists the problems of the rows below ``key`` of the body."""
    details = []
    for problem in problems:
        column = [] if problem.column is None else [problem.column]
        message = f"Row {problem.row}: {problem.message}."
        details.append(_problem(message, key, problem.row - 1, *column))
    return HTTPException(422, details)


def _request_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request body of ``/predict`` as OpenAPI describes it."""
    columns = schema["columns"]
    properties = {}
    for column in columns:
        properties[column["name"]] = {
            "type": COLUMN_TYPES.get(column["kind"], ["number", "boolean", "null"]),
            "examples": column.get("categories", [column["example"]])[:20],
        }
    row = {
        "title": "Row",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "example": {column["name"]: column["example"] for column in columns},
    }
    # Only the form {"rows": …}: clients that are generated from the document need one.
    rows = {"type": "array", "maxItems": schema["batch_limit"], "items": row}
    explain = {"type": "boolean", "default": False}
    request = {
        "type": "object",
        "properties": {"rows": rows, "explain": explain},
        "required": ["rows"],
    }
    return {"required": True, "content": {"application/json": {"schema": request}}}


# The server


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; they are answered once the server runs.

    Raise ``BadInput`` if the host is not an address of this machine, ``SylvaError`` if the port is
    not free.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listener = socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except (socket.gaierror, UnicodeError) as error:
        raise BadInput(f"'{host}' is not an address of this machine: {error}.") from error
    except OSError as error:
        raise SylvaError(
            f"Cannot listen on {host}:{port}: {error.strerror}. "
            "Choose another --port, or 0 for a free one."
        ) from error
    # Connections inherit it. Otherwise a small answer would wait for more bytes to send.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def run_until_stopped(
    service: Service, listener: socket.socket, on_start: Callable[[], None]
) -> None:
    """Answer requests until SIGTERM or Ctrl-C; running requests are finished first."""
    import uvicorn

    def end(number: int, frame: object) -> None:
        """End with exit code 0."""
        sys.exit(0)

    # uvicorn sends the signal again when it has shut down. To be stopped is not a failure.
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    service.warm_up()
    config = uvicorn.Config(
        service.make_app(on_start),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])
