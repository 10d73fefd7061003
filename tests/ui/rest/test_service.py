"""A model served by a real process and called over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest

from tests.nodes.models.conftest import DECIDING, Kept, make_table, started
from tests.nodes.models.test_rows import as_rows
from ui.rest import connections
from ui.rest.service import Refusal, RequestLimits, Service

TOKEN = "s3cret"
START_SECONDS = 90


def address_of(process: Any) -> str:
    """Where a service that was just started answers."""
    lines: list[str] = []
    reading = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "}\n")), daemon=True)
    reading.start()
    reading.join(START_SECONDS)
    told = json.loads("".join(lines) + "}")
    assert told["pid"] == process.pid
    return str(told["address"])


@pytest.fixture(scope="module")
def address(kept: Kept) -> Iterator[str]:
    """A service without a token."""
    limits = ("--batch-limit", 50, "--body-limit", 1)
    with started("serve", "mart", "--port", 0, *limits, "--json", workspace=kept.workspace) as process:
        yield address_of(process)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=30) as made:
        yield made


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return as_rows(make_table(40, seed=3))


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert set(told) == {"error", "problems"} and told["error"]
    return told


class TestPredict:
    def test_answers_what_the_model_says(self, client, rows, model):
        answer = client.post("/predict", json={"rows": rows}).json()
        wanted = model.predict_proba(make_table(40, seed=3))
        assert answer["model"] == "mart" and answer["classes"] == ["no", "yes"]
        got = [[each["probabilities"][name] for name in answer["classes"]] for each in answer["predictions"]]
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
                stream.write(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body))
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

    def test_no_rows_no_predictions(self, client):
        assert client.post("/predict", json={"rows": []}).json()["predictions"] == []

    def test_wrong_columns_and_types_are_all_named(self, client, rows):
        lacking = {name: value for name, value in rows[0].items() if name not in ("amount", "when")}
        told = refused(client.post("/predict", json={"rows": [lacking, {**rows[1], "count": "x"}]}), 422)
        assert [(each["row"], each["column"]) for each in told["problems"]] == [
            (1, "amount"), (1, "when"), (2, "count"),
        ]  # fmt: skip

    def test_too_many_rows(self, client, rows):
        told = refused(client.post("/predict", json={"rows": rows[:1] * 51}), 413)["error"]
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
            (b'{"rows": [{"amount": ' + b"9" * 5000 + b"}]}", 400, "JSON"),
            (b"[]", 422, '{"rows"'),
            (b'{"rows": {}}', 422, '{"rows"'),
            (b'{"row": []}', 422, '{"rows"'),
            (b"null", 422, '{"rows"'),
            (b'{"columns": ["a", "a"], "data": []}', 422, "'columns'"),
            (b'{"columns": ["a", 1], "data": []}', 422, "'columns'"),
        ],
    )
    def test_hostile_and_broken_requests(self, client, body, status, words):
        assert words in refused(client.post("/predict", content=body), status)["error"]
        assert client.get("/health").json() == {"status": "ok"}

    @pytest.mark.parametrize("body", [b'{"rows": [1, null]}', b'{"columns": ["a"], "data": [[1, 2], 3]}'])
    def test_what_is_not_a_row_is_told_with_its_number(self, client, body):
        told = refused(client.post("/predict", content=body), 422)
        assert [problem["row"] for problem in told["problems"]] == [1, 2]

    def test_numbers_that_json_cannot_hold(self, client, rows):
        body = json.dumps({"rows": [rows[0]]}).replace(f'"count": {rows[0]["count"]}', '"count": 1e999')
        told = refused(client.post("/predict", content=body), 422)
        [problem] = told["problems"]
        assert problem["column"] == "count" and "too large" in problem["message"]

    def test_a_huge_body_is_not_read_to_its_end(self, address):
        def parts() -> Iterator[bytes]:
            for _ in range(50):
                yield b" " * 100_000

        with httpx.Client(base_url=address, timeout=30) as client:  # it may close the connection meanwhile
            told = refused(client.post("/predict", content=b" " * 1_000_001), 413)
            assert "1 MB" in told["error"]
            with suppress(httpx.WriteError):
                refused(client.post("/predict", content=parts()), 413)
            assert client.get("/health").status_code == 200


def mixed_bodies(rows: list[dict[str, Any]]) -> list[bytes]:
    """Requests of one and of several rows, of none, with rows that do not fit, and that are no requests."""
    bodies: list[bytes] = []
    for place, row in enumerate(rows):
        lacking = {name: value for name, value in row.items() if name != DECIDING[place % len(DECIDING)]}
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
            limits = httpx.RequestLimits(max_connections=24)
            async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
                answers = await asyncio.gather(*(client.post("/predict", content=body) for body in bodies))
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
        bodies = [json.dumps(each).encode() for each in ({"rows": rows[:1]}, wrong, {"rows": [{}]}, {"rows": rows[:3]})]
        one, failed, unfit, three = service.answers(bodies)
        assert [one, three] == [*service.answers(bodies[:1]), *service.answers(bodies[3:])]
        assert isinstance(failed, MemoryError) and isinstance(unfit, Refusal) and unfit.status == 422
        assert len(predictions(one)) == 1 and len(predictions(three)) == 3


def predictions(answer: bytes | Exception) -> list[Any]:
    return [] if isinstance(answer, Exception) else json.loads(answer)["predictions"]


def assert_same(got: bytes | Exception, wanted: bytes | Exception) -> None:
    if isinstance(wanted, Refusal):
        assert isinstance(got, Refusal)
        assert (got.status, got.message, got.problems) == (wanted.status, wanted.message, wanted.problems)
        return
    assert got == wanted


class TestOther:
    def test_health_schema_and_openapi(self, client, rows):
        assert client.get("/health").json() == {"status": "ok"}
        schema = client.get("/schema").json()
        assert schema["classes"] == ["no", "yes"] and [each["name"] for each in schema["columns"]] == DECIDING
        assert schema["batch_limit"] == 50 and schema["trained_on_rows"] == 600
        example = {each["name"]: each["example"] for each in schema["columns"]}
        assert client.post("/predict", json={"rows": [example]}).status_code == 200
        document = client.get("/openapi.json").json()
        assert document["openapi"] == "3.1.0" and "/predict" in document["paths"]
        row = document["components"]["schemas"]["Row"]
        jsonschema.Draft202012Validator.check_schema(row)
        jsonschema.validate(rows[0], row)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**rows[0], "count": "x"}, row)

    @pytest.mark.parametrize("path", ["/", "/docs"])
    def test_the_page_needs_nothing_from_elsewhere(self, client, path):
        answer = client.get(path)
        assert answer.headers["content-type"].startswith("text/html")
        assert "http://" not in answer.text and "https://" not in answer.text and " src=" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [("GET", "/nope", 404), ("GET", "/predict", 405), ("DELETE", "/schema", 405), ("POST", "/health", 405)],
    )
    def test_other_addresses_are_refused_as_json(self, client, method, path, status):
        refused(client.request(method, path), status)

    @pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", ""])
    def test_a_name_that_only_leads_here_is_refused(self, client, host):
        refused(client.post("/predict", headers={"Host": host}, json={"rows": []}), 403)
        refused(client.get("/schema", headers={"Host": host}), 403)

    @pytest.mark.parametrize("host", ["localhost", "localhost:99", "127.0.0.1", "[::1]:8000", "[::1]"])
    def test_names_of_this_machine_are_fine(self, client, host):
        assert client.get("/schema", headers={"Host": host}).status_code == 200

    @pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1"])
    def test_pages_of_other_addresses_are_refused(self, client, origin):
        headers = {"Origin": origin}
        assert "pages" in refused(client.get("/schema", headers=headers), 403)["error"]
        refused(client.post("/predict", headers=headers, json={"rows": []}), 403)

    def test_its_own_page_is_not(self, client, address):
        assert client.post("/predict", headers={"Origin": address}, json={"rows": []}).status_code == 200

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; a=b"])
    def test_what_a_form_can_send_is_refused(self, client, kind):
        answer = client.post("/predict", headers={"Content-Type": kind}, content=b'{"rows": []}')
        assert "application/json" in refused(answer, 415)["error"]

    @pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", ""])
    def test_json_is_not(self, client, kind):
        answer = client.post("/predict", headers={"Content-Type": kind}, content=b'{"rows": []}')
        assert answer.status_code == 200


IMPATIENT = """
import resource
from ui.rest import connections
from ui.rest.service import Limits, Refusal, Service
connections.HEAD_SECONDS, connections.MOST, connections.OTHER_FILES = 1.0, 20, 60
resource.setrlimit(resource.RLIMIT_NOFILE, (50, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
"""
"""Little time and room; fewer files may be open at first than are needed."""


@pytest.fixture(scope="module")
def place(kept: Kept) -> Iterator[tuple[str, int]]:
    """Where an impatient service listens; it must have said nothing of any connection when it ends."""
    arguments = ("serve", "mart", "--port", 0, "--json")
    with started(*arguments, workspace=kept.workspace, before=IMPATIENT) as process:
        host, _, port = address_of(process).removeprefix("http://").partition(":")
        yield host, int(port)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and errors == ""


class TestConnections:
    """Real sockets."""

    def is_up(self, place: tuple[str, int]) -> bool:
        return httpx.get(f"http://{place[0]}:{place[1]}/health", timeout=30).status_code == 200

    @pytest.mark.parametrize(
        ("asks_before", "sent"), [(False, b""), (False, b"GET /health HTTP"), (True, b"GET /health HTTP")]
    )
    def test_one_that_asks_for_nothing_is_closed(self, place, asks_before, sent):
        with socket.create_connection(place, timeout=30) as plain:
            if asks_before:
                plain.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert plain.recv(4096).startswith(b"HTTP/1.1 200 ")
            plain.sendall(sent)
            began = time.monotonic()
            with suppress(ConnectionError):
                while plain.recv(4096):
                    pass
            assert time.monotonic() - began < 20  # else it is the end of what is kept alive, or never
        assert self.is_up(place)

    def test_one_that_sends_a_byte_now_and_then_is_closed(self, place):
        with socket.create_connection(place, timeout=30) as plain, pytest.raises(OSError):
            for _ in range(100):
                plain.sendall(b"G")
                time.sleep(0.1)
        assert self.is_up(place)

    def test_one_that_asks_now_and_then_is_not(self, place):
        with httpx.Client(base_url=f"http://{place[0]}:{place[1]}", timeout=30) as client:
            stream = []
            for _ in range(3):
                answer = client.get("/health")
                stream.append(answer.extensions["network_stream"].get_extra_info("client_addr"))
                time.sleep(0.7)
        assert len(set(stream)) == 1

    def test_too_many_are_turned_away(self, place):
        held = [socket.create_connection(place, timeout=30) for _ in range(150)]
        answers = []
        for plain in held:
            with suppress(ConnectionError):
                answers.append(plain.recv(4096))
            plain.close()
        assert len([answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]) >= 100
        json.loads(next(filter(None, answers)).partition(b"\r\n\r\n")[2])
        assert self.is_up(place)

    def test_one_that_hangs_up_in_the_middle_is_no_failure(self, place):
        for _ in range(3):
            with socket.create_connection(place, timeout=30) as plain:
                plain.sendall(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{")
                time.sleep(0.05)
        assert self.is_up(place)


def test_connections_that_cannot_be_taken_are_told_once(capsys):
    trouble, loop = connections.Trouble(), asyncio.new_event_loop()
    for _ in range(1000):
        trouble(loop, {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many")})
    loop.close()
    [line] = capsys.readouterr().err.splitlines()
    assert "[Errno 24] Too many" in line


@pytest.fixture(scope="module")
def guarded(kept: Kept) -> Iterator[httpx.Client]:
    """A service with a token of the environment; it must end by itself when it is asked to."""
    with started("serve", "linear", "--port", 0, "--json", workspace=kept.workspace, SYLVA_TOKEN=TOKEN) as process:
        with httpx.Client(base_url=address_of(process), timeout=30) as client:
            yield client
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0 and errors == ""


class TestToken:
    @pytest.mark.parametrize(
        "headers",
        [{}, {"Authorization": TOKEN}, {"Authorization": "Bearer"}, {"Authorization": f"Bearer {TOKEN}x"},
         {"Authorization": f"Basic {TOKEN}"}, {"Authorization": b"Bearer s3cr\xe9t"}],
    )  # fmt: skip
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
        assert document["security"] == [{"token": []}]
        answer = guarded.post("/predict", headers=headers, json={"rows": rows[:1]}).json()
        wanted = kept.open("linear").predict_proba(make_table(40, seed=3))[0]
        np.testing.assert_array_equal(list(answer["predictions"][0]["probabilities"].values()), wanted)
