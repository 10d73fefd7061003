"""Models that the studio serves: real processes, found again after a restart, killed, stopped."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError

import pytest

from engine.errors import SylvaError
from engine.processes import is_alive
from engine.workspace import Workspace
from tests.expect import refused
from tests.ui.studio.models.conftest import MODEL
from tests.waiting import until
from ui.studio.models.services import ModelService, ModelServices

STAND_IN = """
import json, os, sys, time
port = sys.argv[sys.argv.index("--port") + 1]
if port == "7":
    print(json.dumps({"error": "Cannot listen on 127.0.0.1:7.", "exit_code": 1}))
    raise SystemExit(1)
if port == "8":
    raise SystemExit("RuntimeError: it broke")
assert len(os.environ["SYLVA_TOKEN"]) > 20
print(json.dumps({"address": f"http://127.0.0.1:{port}"}, indent=2), flush=True)
time.sleep(600)
"""
"""What ``sylva serve`` prints, at once and without a model."""


@pytest.fixture
def services(workspace: Workspace) -> Iterator[ModelServices]:
    made = ModelServices(workspace, [sys.executable, "-I", "-c", STAND_IN])
    yield made
    made.stop(MODEL)


def running(services: ModelServices) -> ModelService:
    def look() -> ModelService | None:
        service = services.of(MODEL)
        assert service is not None and service.state != "ended", service
        return service if service.state == "running" else None

    return until(look, 120, "the service")


def ended(services: ModelServices) -> ModelService:
    until(lambda: (found := services.of(MODEL)) and found.state == "ended", 60, "its end")
    service = services.of(MODEL)
    assert service is not None
    return service


def test_a_service_predicts_and_outlives_the_studio(workspace: Workspace):
    services = ModelServices(workspace)
    assert services.of(MODEL) is None and services.all() == {}
    started = services.start(MODEL, 1)
    try:
        service = running(services)
        assert service.port and service.token == started.token
        row = {"age": 30, "job": "cook", "since": "2020-01-03", "member": True}
        answer = ask(service, {"rows": [row]}, service.token)
        assert answer["model"] == MODEL and answer["predictions"][0]["prediction"] in (
            "high",
            "low",
        )
        with pytest.raises(HTTPError, match="401"):
            ask(service, {"rows": [row]}, "wrong")
        later = ModelServices(workspace)  # as a studio that was started again
        assert later.of(MODEL) == service == later.all()[MODEL]
        later.stop(MODEL)
        assert not is_alive(service.process)
        assert later.of(MODEL) is None and services.of(MODEL) is None
    finally:
        services.stop(MODEL)


def ask(service: ModelService, body: dict, token: str) -> dict:
    request = urllib.request.Request(
        f"{service.address}/predict",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_a_killed_service_is_shown_as_ended_and_can_be_started_again(services: ModelServices):
    services.start(MODEL, 1, 8001)
    service = running(services)
    assert service.port == 8001
    os.kill(service.process.pid, signal.SIGKILL)
    assert ended(services).problem
    assert services.all()[MODEL].state == "ended"
    again = services.start(MODEL, 1, 8002)
    assert again.token != service.token and running(services).port == 8002


def test_two_starts_do_not_collide(services: ModelServices):
    def start(_: int) -> ModelService | None:
        try:
            return services.start(MODEL, 1, 8001)
        except SylvaError:
            return None

    with ThreadPoolExecutor(4) as pool:
        found = [service for service in pool.map(start, range(4)) if service]
    assert len(found) == 1
    assert running(services).process == found[0].process
    with refused(SylvaError, naming=["Version 1", f"'{MODEL}'", "http://127.0.0.1:8001"]):
        services.start(MODEL, 1)


@pytest.mark.parametrize(("port", "named"), [(7, "127.0.0.1:7"), (8, "it broke")])
def test_a_service_that_cannot_start_says_why(services: ModelServices, port: int, named: str):
    services.start(MODEL, 1, port)
    assert named in ended(services).problem
    services.stop(MODEL)
    assert services.of(MODEL) is None


def test_a_version_that_does_not_exist_is_not_served(services: ModelServices):
    with refused(naming="version 4"):
        services.start(MODEL, 4)
    with refused(naming="'none@1'"):
        services.start("none", 1)
    assert services.all() == {}


def test_the_process_of_another_program_is_not_stopped(services: ModelServices):
    services.start(MODEL, 1, 8001)
    running(services)
    services.stop(MODEL)
    folder = services.workspace.root / "services"
    # A record whose process number now belongs to another process: this one.
    record = {
        "model": MODEL,
        "version": 1,
        "token": "t",
        "started": 1.0,
        "process": {"pid": os.getpid(), "began": 1, "boot": "another"},
    }
    (folder / f"{MODEL}.json").write_text(json.dumps(record))
    service = services.of(MODEL)
    assert service is not None and service.state == "ended"
    services.stop(MODEL)
    assert services.of(MODEL) is None


def test_only_the_user_can_read_the_token(services: ModelServices):
    services.start(MODEL, 1, 8001)
    for path in (services.workspace.root / "services").iterdir():
        if path.suffix != ".lock":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": "people", "process": 5}'])
def test_a_damaged_record_is_not_a_service(services: ModelServices, text: str):
    (services.workspace.root / "services").mkdir(exist_ok=True)
    (services.workspace.root / "services" / f"{MODEL}.json").write_text(text)
    assert services.of(MODEL) is None and services.all() == {}
    services.start(MODEL, 1, 8001)
    running(services)
