"""A model served by a real process and called over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import httpx
import jsonschema
import numpy as np
import pyarrow as pa
import pytest
from fastapi import HTTPException

from engine.values import Table
from nodes import linear_regression
from tests.nodes.conftest import make_context
from tests.nodes.models.conftest import DECIDING, Kept, make_table, started
from tests.nodes.models.test_rows import as_rows
from tests.waiting import until
from ui.rest.service import RequestLimits, Service

TOKEN = "s3cret"
START_SECONDS = 90


def address_of(process: Any) -> str:
    """Where a service that was just started answers."""
    lines: list[str] = []
    reading = threading.Thread(
        target=lambda: lines.extend(iter(process.stdout.readline, "}\n")), daemon=True
    )
    reading.start()
    reading.join(START_SECONDS)
    told = json.loads("".join(lines) + "}")
    assert told["pid"] == process.pid
    return str(told["address"])


@pytest.fixture(scope="module")
def address(kept: Kept) -> Iterator[str]:
    """A service without a token."""
    limits = ("--batch-limit", 50, "--body-limit", 1)
    with started(
        "serve", "mart", "--port", 0, *limits, "--json", workspace=kept.workspace
    ) as process:
        yield address_of(process)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as made:
        yield made


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return as_rows(make_table(40, seed=3))


def refused(answer: httpx.Response, status: int) -> str:
    """Return the message of an error; with status 422 the messages of all problems."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()
    assert set(error) == {"detail"} and error["detail"]
    if status != 422:
        assert isinstance(error["detail"], str)
        return error["detail"]
    assert all(set(each) == {"type", "loc", "msg"} for each in error["detail"])
    return "\n".join(each["msg"] for each in error["detail"])


def locations(answer: httpx.Response) -> list[list[Any]]:
    """Return where the problems of a refused request are."""
    refused(answer, 422)
    return [each["loc"] for each in answer.json()["detail"]]


class TestPredict:
    def test_answers_what_the_model_says(self, client, rows, model):
        answer = client.post("/predict", json={"rows": rows}).json()
        wanted = model.predict_proba(make_table(40, seed=3))
        assert answer["model"] == "mart" and answer["classes"] == ["no", "yes"]
        got = [
            [each["probabilities"][name] for name in answer["classes"]]
            for each in answer["predictions"]
        ]
        np.testing.assert_array_equal(np.array(got), wanted)
        assert [each["prediction"] for each in answer["predictions"]] == [
            model.classes[place] for place in wanted.argmax(axis=1)
        ]

    def test_one_row_at_a_time_over_one_connection(self, address, rows, model):
        wanted = model.predict_proba(make_table(40, seed=3))
        with socket.create_connection(address.removeprefix("http://").split(":")) as plain:
            stream = plain.makefile("rwb")
            for place, row in enumerate(rows):
                body = json.dumps({"rows": [row]}).encode()
                stream.write(
                    b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
                    % len(body)
                )
                stream.write(body)
                stream.flush()
                head = b"".join(iter(stream.readline, b"\r\n"))
                length = int(head.lower().split(b"content-length:")[1].split()[0])
                answer = json.loads(stream.read(length))
                assert answer["predictions"][0]["probabilities"]["yes"] == wanted[place, 1]

    def test_columns_and_lines(self, client, rows):
        columns = [*reversed(DECIDING), "more"]
        data = [[row.get(name) for name in columns] for row in rows]
        answer = client.post("/predict", json={"columns": columns, "data": data})
        assert answer.json() == client.post("/predict", json={"rows": rows}).json()

    def test_explains_if_asked(self, client, rows, model):
        answer = client.post("/predict", json={"rows": rows[:5], "explain": True}).json()
        plain = client.post("/predict", json={"rows": rows[:5], "explain": False}).json()
        wanted = model.contributions(make_table(40, seed=3))[:5, :, 1]
        for row, each in zip(wanted, answer["predictions"], strict=True):
            explanation = each.pop("explanation")
            assert explanation["class"] == "yes"
            assert list(explanation["contributions"]) == DECIDING
            values = [*explanation["contributions"].values(), explanation["base"]]
            np.testing.assert_allclose(values, row, atol=1e-12)
            assert sum(values) == pytest.approx(each["probabilities"]["yes"], abs=1e-6)
        assert answer == plain

    def test_a_wish_for_explanations_that_cannot_be_met_is_refused(self, client, rows):
        answer = client.post("/predict", json={"rows": rows, "explain": "yes"})
        assert locations(answer) == [["body", "explain"]]
        assert "true or false" in refused(answer, 422)

    def test_explanations_of_no_rows(self, client):
        answer = client.post("/predict", json={"rows": [], "explain": True})
        assert answer.json()["predictions"] == []

    def test_no_rows_no_predictions(self, client):
        assert client.post("/predict", json={"rows": []}).json()["predictions"] == []

    def test_wrong_columns_and_types_are_all_named(self, client, rows):
        lacking = {name: value for name, value in rows[0].items() if name not in ("amount", "when")}
        answer = client.post("/predict", json={"rows": [lacking, {**rows[1], "count": "x"}]})
        assert locations(answer) == [
            ["body", "rows", 0, "amount"],
            ["body", "rows", 0, "when"],
            ["body", "rows", 1, "count"],
        ]
        assert [each["msg"].split(":")[0] for each in answer.json()["detail"]] == [
            "Row 1",
            "Row 1",
            "Row 2",
        ]
        assert "'count'" in answer.json()["detail"][2]["msg"]

    def test_too_many_rows(self, client, rows):
        told = refused(client.post("/predict", json={"rows": rows[:1] * 51}), 413)
        assert "51 rows" in told and "50" in told

    @pytest.mark.parametrize(
        ("body", "status", "words"),
        [
            (b"", 400, "JSON"),
            (b"{", 400, "JSON"),
            (b"\xff\xfe\xfa", 400, "JSON"),
            (b"[" * 200_000, 400, "nested"),
            (b'{"rows": ' + b'[{"a":' * 50_000, 400, "nested"),
            (b'{"rows": [{"amount": NaN}]}', 400, "NaN"),
            (b'{"rows": [{"amount": -Infinity}]}', 400, "-Infinity"),
            (
                b'{"rows": [{"amount": ' + b"9" * 5000 + b"}]}",
                422,
                "'amount' is infinity",
            ),
            (b"[]", 422, '{"rows"'),
            (b'{"rows": {}}', 422, '{"rows"'),
            (b'{"row": []}', 422, '{"rows"'),
            (b"null", 422, '{"rows"'),
            (b'{"columns": ["a", "a"], "data": []}', 422, "'columns'"),
            (b'{"columns": ["a", 1], "data": []}', 422, "'columns'"),
        ],
    )
    def test_hostile_and_broken_requests(self, client, body, status, words):
        assert words in refused(client.post("/predict", content=body), status)
        assert client.get("/health").json() == {"status": "ok"}

    @pytest.mark.parametrize(
        ("body", "key"),
        [(b'{"rows": [1, null]}', "rows"), (b'{"columns": ["a"], "data": [[1, 2], 3]}', "data")],
    )
    def test_what_is_not_a_row_is_reported_with_its_number(self, client, body, key):
        answer = client.post("/predict", content=body)
        assert locations(answer) == [["body", key, 0], ["body", key, 1]]
        first, second = refused(answer, 422).splitlines()
        assert first.startswith("Row 1:") and second.startswith("Row 2:")

    def test_numbers_that_json_cannot_hold(self, client, rows):
        body = json.dumps({"rows": [rows[0]]}).replace(
            f'"count": {rows[0]["count"]}', '"count": 1e999'
        )
        answer = client.post("/predict", content=body)
        assert locations(answer) == [["body", "rows", 0, "count"]]
        assert "'count' is infinity" in refused(answer, 422)

    def test_a_huge_body_is_not_read_to_its_end(self, address):
        def parts() -> Iterator[bytes]:
            for _ in range(50):
                yield b" " * 100_000

        with httpx.Client(
            base_url=address, timeout=30
        ) as client:  # it may close the connection meanwhile
            told = refused(client.post("/predict", content=b" " * 1_000_001), 413)
            assert "1 MB" in told
            with suppress(httpx.WriteError):
                refused(client.post("/predict", content=parts()), 413)
            assert client.get("/health").status_code == 200


def mixed_bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    """Requests of one, several and no rows, with rows that do not fit, and malformed requests."""
    bodies: list[bytes] = []
    for place, row in enumerate(rows):
        lacking = {
            name: value for name, value in row.items() if name != DECIDING[place % len(DECIDING)]
        }
        columns, line = list(row), list(row.values())
        wanted: list[Any] = [
            {"rows": [row]},
            {"rows": rows[place : place + 3]},
            {"rows": [row, lacking]},
            {"rows": []},
            {"columns": columns, "data": [line, line]},
            {"columns": columns, "data": [line[1:]]},
            {"rows": [{**row, "count": f"no number {place}"}]},
            {"row": place},
            {"rows": rows[:1] * (51 + place)},
        ]
        bodies += [json.dumps(each).encode() for each in wanted]
        bodies.append(b'{"rows": [%d' % place)
    return bodies


class TestTogether:
    """Requests that come at the same moment get what they would get alone."""

    def test_many_clients_at_once(self, address, rows):
        bodies = mixed_bodies(rows[:20])

        async def ask() -> list[tuple[int, bytes]]:
            limits = httpx.Limits(max_connections=24)
            async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
                answers = await asyncio.gather(
                    *(client.post("/predict", content=body) for body in bodies)
                )
            return [(answer.status_code, answer.content) for answer in answers]

        together = asyncio.run(ask())
        with httpx.Client(base_url=address, timeout=60) as client:
            alone = [client.post("/predict", content=body) for body in bodies]
        assert {answer.status_code for answer in alone} == {200, 400, 413, 422}
        for body, got, wanted in zip(bodies, together, alone, strict=True):
            assert got == (wanted.status_code, wanted.content), body

    @pytest.mark.parametrize("name", ["mart", "linear"])
    def test_their_rows_are_predicted_at_once(self, kept, rows, name):
        service = Service(name, kept.open(name), limits=RequestLimits(rows=50))
        bodies = mixed_bodies(rows[:20])
        asked: list[int] = []
        predict = service.model.estimator.predict_proba

        def noting(matrix: np.ndarray) -> np.ndarray:
            asked.append(len(matrix))
            return predict(matrix)

        service.model.estimator.predict_proba = noting
        together = service.answers(bodies)
        assert asked == [sum(len(predictions(answer)) for answer in together)]
        for body, got in zip(bodies, together, strict=True):
            (wanted,) = service.answers([body])
            assert_same(got, wanted)

    def test_a_failure_is_only_of_the_request_that_fails(self, kept, rows):
        service = Service("mart", kept.open("mart"))
        predict, place = service.model.estimator.predict_proba, DECIDING.index("steady")

        def failing(matrix: np.ndarray) -> np.ndarray:
            if (matrix[:, place] == 12345).any():
                raise MemoryError("too much")
            return predict(matrix)

        service.model.estimator.predict_proba = failing
        wrong = {"rows": [{**rows[1], "steady": 12345}]}
        bodies = [
            json.dumps(each).encode()
            for each in ({"rows": rows[:1]}, wrong, {"rows": [{}]}, {"rows": rows[:3]})
        ]
        one, failed, unfit, three = service.answers(bodies)
        assert [one, three] == [*service.answers(bodies[:1]), *service.answers(bodies[3:])]
        assert (
            isinstance(failed, MemoryError)
            and isinstance(unfit, HTTPException)
            and unfit.status_code == 422
        )
        assert len(predictions(one)) == 1 and len(predictions(three)) == 3


def predictions(answer: bytes | Exception) -> list[Any]:
    return [] if isinstance(answer, Exception) else json.loads(answer)["predictions"]


def assert_same(got: bytes | Exception, wanted: bytes | Exception) -> None:
    if isinstance(wanted, HTTPException):
        assert isinstance(got, HTTPException)
        assert (got.status_code, got.detail) == (wanted.status_code, wanted.detail)
        return
    assert got == wanted


class TestOther:
    def test_health_schema_and_openapi(self, client, rows):
        assert client.get("/health").json() == {"status": "ok"}
        schema = client.get("/schema").json()
        assert (
            schema["classes"] == ["no", "yes"]
            and [each["name"] for each in schema["columns"]] == DECIDING
        )
        assert schema["batch_limit"] == 50 and schema["trained_on_rows"] == 600
        example = {each["name"]: each["example"] for each in schema["columns"]}
        assert client.post("/predict", json={"rows": [example]}).status_code == 200
        document = client.get("/openapi.json").json()
        assert document["openapi"] == "3.1.0" and "/predict" in document["paths"]
        predict = document["paths"]["/predict"]["post"]
        # Not the docstring of the function, which is for those who read the code.
        assert predict["description"].startswith("Send the rows as")
        assert "description" not in document["paths"]["/schema"]["get"]
        assert {name: set(path) for name, path in document["paths"].items()} == {
            "/predict": {"post"},
            "/health": {"get"},
            "/schema": {"get"},
        }
        body = predict["requestBody"]["content"]["application/json"]
        row = body["schema"]["properties"]["rows"]["items"]
        jsonschema.Draft202012Validator.check_schema(row)
        jsonschema.validate(rows[0], row)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**rows[0], "count": "x"}, row)

    @pytest.mark.parametrize("path", ["/", "/docs"])
    def test_the_page_needs_nothing_from_elsewhere(self, client, path):
        answer = client.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        assert (
            "http://" not in answer.text
            and "https://" not in answer.text
            and " src=" not in answer.text
        )
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'sha256-" in policy

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("GET", "/nope", 404),
            ("POST", "/nope", 404),
            ("GET", "/predict", 405),
            ("DELETE", "/schema", 405),
            ("POST", "/health", 405),
        ],
    )
    def test_other_addresses_are_refused_as_json(self, client, method, path, status):
        answer = client.request(method, path)
        assert "; / says what there is." in refused(answer, status)
        assert ("allow" in answer.headers) == (status == 405)

    @pytest.mark.parametrize("path", ["/health", "/", "/docs", "/schema", "/openapi.json"])
    def test_a_monitor_may_ask_for_the_head_only(self, client, path):
        answer, full = client.head(path), client.get(path)
        assert answer.status_code == 200 and answer.content == b""
        assert answer.headers["content-length"] == str(len(full.content))

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", ""])
    def test_a_name_that_only_leads_here_is_refused(self, client, host):
        refused(client.post("/predict", headers={"Host": host}, json={"rows": []}), 403)
        refused(client.get("/schema", headers={"Host": host}), 403)

    @pytest.mark.parametrize(
        "host", ["localhost", "localhost:99", "127.0.0.1", "[::1]:8000", "[::1]"]
    )
    def test_names_of_this_machine_are_fine(self, client, host):
        assert client.get("/schema", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize(
        "origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"]
    )
    def test_pages_of_other_addresses_are_refused(self, client, origin):
        headers = {"Origin": origin}
        assert "pages" in refused(client.get("/schema", headers=headers), 403)
        refused(client.post("/predict", headers=headers, json={"rows": []}), 403)

    def test_its_own_page_is_not(self, client, address):
        assert (
            client.post("/predict", headers={"Origin": address}, json={"rows": []}).status_code
            == 200
        )

    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"]
    )
    def test_what_a_form_can_send_is_refused(self, client, kind):
        answer = client.post("/predict", headers={"Content-Type": kind}, content=b'{"rows": []}')
        assert "application/json" in refused(answer, 415)

    @pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", ""])
    def test_json_is_not(self, client, kind):
        answer = client.post("/predict", headers={"Content-Type": kind}, content=b'{"rows": []}')
        assert answer.status_code == 200


IMPATIENT = """
from ui.rest import service
service.BODY_SECONDS, service.MAX_CONNECTIONS = 1.0, 20
"""


@pytest.fixture(scope="module")
def place(kept: Kept) -> Iterator[tuple[str, int]]:
    """Where a service with little time and few connections listens."""
    arguments = ("serve", "mart", "--port", 0, "--json")
    with started(*arguments, workspace=kept.workspace, before=IMPATIENT) as process:
        host, _, port = address_of(process).removeprefix("http://").partition(":")
        yield host, int(port)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "Traceback" not in errors


HALF_A_REQUEST = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"


class TestConnections:
    """Real sockets."""

    def is_up(self, place: tuple[str, int]) -> bool:
        return httpx.get(f"http://{place[0]}:{place[1]}/health", timeout=30).status_code == 200

    def test_a_request_that_does_not_arrive_in_time_is_refused(self, place):
        with socket.create_connection(place, timeout=30) as plain:
            plain.sendall(HALF_A_REQUEST)
            assert plain.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert self.is_up(place)

    def test_slow_clients_do_not_hold_up_the_others(self, place):
        held = [socket.create_connection(place, timeout=30) for _ in range(10)]
        for plain in held:
            plain.sendall(HALF_A_REQUEST)
        assert self.is_up(place)
        answer = httpx.post(f"http://{place[0]}:{place[1]}/predict", json={"rows": []}, timeout=30)
        assert answer.status_code == 200
        for plain in held:
            plain.close()

    def test_a_connection_is_used_for_many_requests(self, place):
        with httpx.Client(base_url=f"http://{place[0]}:{place[1]}", timeout=30) as client:
            addresses = set()
            for _ in range(3):
                stream = client.get("/health").extensions["network_stream"]
                addresses.add(stream.get_extra_info("client_addr"))
        assert len(addresses) == 1

    def test_too_many_connections_are_turned_away(self, place):
        held = [socket.create_connection(place, timeout=30) for _ in range(30)]
        held[-1].sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert held[-1].recv(4096).startswith(b"HTTP/1.1 503 ")
        for plain in held:
            plain.close()
        until(lambda: self.is_up(place), what="the end of the connections")

    def test_a_client_that_hangs_up_in_the_middle_is_not_a_failure(self, place):
        for _ in range(3):
            with socket.create_connection(place, timeout=30) as plain:
                plain.sendall(HALF_A_REQUEST)
                time.sleep(0.05)
        assert self.is_up(place)


def test_a_model_of_numbers_answers_with_numbers_and_why(tmp_path):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 60))
    table = Table(pa.table({"x": x, "z": z, "y": 3 * x - z + 100}), "y")
    model = linear_regression.NODE.run(
        make_context(tmp_path), {"table": table}, linear_regression.NODE.params()
    )["model"]
    service = Service("numbers", model)
    body = json.dumps({"columns": ["x", "z"], "data": [[1.0, 2.0], [None, 0.0]], "explain": True})
    [answer] = service.answers([body.encode()])
    predictions = json.loads(answer)["predictions"]
    wanted = model.predict_proba(Table(pa.table({"x": pa.array([1.0, None]), "z": [2.0, 0.0]})))[
        :, 0
    ]
    assert [each["prediction"] for each in predictions] == wanted.tolist()
    for each in predictions:
        why = each["explanation"]
        total = why["base"] + sum(why["contributions"].values())
        assert total == pytest.approx(each["prediction"], abs=1e-6)
    assert service.schema["task"] == "regression"


def test_more_rows_than_may_be_explained_are_refused(kept, rows):
    service = Service("mart", kept.open("mart"))
    [error] = service.answers([json.dumps({"rows": rows * 3, "explain": True}).encode()])
    assert isinstance(error, HTTPException) and error.status_code == 413
    assert "120 rows to explain; at most 100" in error.detail


def test_large_requests_beyond_what_memory_may_hold_are_refused(kept):
    """Five bodies of the largest size, none of which has arrived completely."""
    service = Service("mart", kept.open("mart"), limits=RequestLimits(body=1000))

    async def send_all() -> list[httpx.Response]:
        last_parts = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b" " * 999
            await last_parts.wait()

        app = httpx.ASGITransport(service.make_app())
        async with httpx.AsyncClient(transport=app, base_url="http://localhost") as client:
            posts = [asyncio.create_task(client.post("/predict", content=body())) for _ in range(5)]
            await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
            last_parts.set()
            answers = await asyncio.gather(*posts)
            assert (await client.post("/predict", json={"rows": []})).status_code == 200
        return answers

    statuses = sorted(answer.status_code for answer in asyncio.run(send_all()))
    assert statuses == [400, 400, 400, 400, 503]


@pytest.fixture(scope="module")
def guarded(kept: Kept) -> Iterator[httpx.Client]:
    """A service with a token of the environment; it must end by itself when it is asked to."""
    with started(
        "serve", "linear", "--port", 0, "--json", workspace=kept.workspace, SYLVA_TOKEN=TOKEN
    ) as process:
        with httpx.Client(base_url=address_of(process), timeout=30) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and errors == ""


class TestToken:
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Authorization": TOKEN},
            {"Authorization": "Bearer"},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Authorization": f"Basic {TOKEN}"},
            {"Authorization": b"Bearer s3cr\xe9t"},
        ],
    )
    def test_without_the_token_there_is_only_health(self, guarded, headers):
        for path in ("/schema", "/openapi.json"):
            refused(guarded.get(path, headers=headers), 401)
        answer = guarded.post("/predict", headers=headers, json={"rows": []})
        assert refused(answer, 401) and answer.headers["www-authenticate"] == "Bearer"
        assert guarded.get("/health", headers=headers).status_code == 200
        assert "linear" not in guarded.get("/").text

    def test_with_the_token_all_is_open(self, guarded, kept, rows):
        headers = {"Authorization": f"bearer {TOKEN}", "Host": "models.example"}
        document = guarded.get("/openapi.json", headers=headers).json()
        assert document["paths"]["/predict"]["post"]["security"] == [{"token": []}]
        assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
        answer = guarded.post("/predict", headers=headers, json={"rows": rows[:1]}).json()
        wanted = kept.open("linear").predict_proba(make_table(40, seed=3))[0]
        np.testing.assert_array_equal(
            list(answer["predictions"][0]["probabilities"].values()), wanted
        )
