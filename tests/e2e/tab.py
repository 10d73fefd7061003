"""A browser tab with a canvas in it, and the servers it looks at."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.waiting import until

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "artifacts" / "screenshots"
"""Pictures of the screens as the tests saw them; kept for a person to look at."""

PATIENCE = 60.0
"""Seconds that a busy machine may take for anything."""


TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def waited(holds: Callable[[], Any], seconds: float) -> bool:
    """Whether it holds within the seconds."""
    try:
        until(holds, seconds)
    except AssertionError:
        return False
    return True


def gone() -> tuple[type[Exception], ...]:
    """What Playwright raises for an element that went, or moved, while it was used."""
    from playwright.sync_api import Error

    return (Error,)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def served(command: Sequence[str], port: int, folder: Path, **env: str) -> Iterator[str]:
    """The address of a Streamlit app that ``command`` starts."""
    with (folder / "server.log").open("ab") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **env}, stdout=output, stderr=subprocess.STDOUT
        )
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(f"{address}/_stcore/health"), 60, "the start of the server")
        yield address
    finally:
        process.terminate()
        process.wait(20)


def expect() -> Any:
    """Playwright's own, which waits; looked for when it is needed."""
    from playwright.sync_api import expect

    return expect


class Tab:
    """One browser tab with a canvas in it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        page.set_default_timeout(PATIENCE * 1000)
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def node(self, name: str) -> Any:
        return self.page.locator(f'.react-flow__node[data-id="{name}"]')

    def handle(self, end: str, side: str) -> Any:
        name, port = end.split(".")
        return self.node(name).locator(f'[data-port="{port}"][data-side="{side}"]')

    def box(self, locator: Any) -> dict[str, float]:
        """Where it is, once it does not move: the canvas may be bringing it into view."""

        def still() -> dict[str, float] | None:
            before = locator.bounding_box()
            self.page.evaluate(TWO_FRAMES)
            return before if before == locator.bounding_box() else None

        return until(still, what="the drawing of it")

    def centre(self, locator: Any) -> tuple[float, float]:
        box = self.box(locator)
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def on_stage(self, x: float, y: float) -> tuple[float, float]:
        box = self.box(self.page.locator(".stage"))
        return box["x"] + x, box["y"] + y

    def drop(self, node_type: str, x: float, y: float) -> None:
        item = self.page.locator(f'[data-node-type="{node_type}"]')
        item.drag_to(self.page.locator(".stage"), target_position={"x": x, "y": y})

    def pull(
        self, start: tuple[float, float], end: tuple[float, float], let_go: bool = True
    ) -> None:
        mouse = self.page.mouse
        mouse.move(*start)
        mouse.down()
        mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2, steps=4)
        mouse.move(*end, steps=4)
        if let_go:
            mouse.up()

    def connect(self, source: str, target: str, let_go: bool = True) -> None:
        self.pull(
            self.centre(self.handle(source, "output")),
            self.centre(self.handle(target, "input")),
            let_go,
        )

    def click(self, name: str, **options: Any) -> None:
        self.page.mouse.move(*self.on_stage(500, 540))
        self.node(name).locator(".node-title").click(**options)

    def click_until(self, button: Any, holds: Callable[[], Any], what: str = "it") -> None:
        """Click until it has its effect: a click while the button is drawn again can be lost."""

        def clicked() -> bool:
            if not holds() and button.is_visible():
                with suppress(*gone()):
                    button.click(timeout=2_000)
            return waited(holds, 2)

        until(clicked, what=what)

    def download(self, button: Any) -> Path:
        """What a click on the button brings; the click is made again if it was lost."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(*gone()), self.page.expect_download(timeout=10_000) as download:
                button.click()
                return Path(download.value.path())
        raise AssertionError("the download did not begin in time")

    def write(self, field: Any, text: str) -> None:
        """Type into the field that the program gives the keyboard to."""
        expect()(field).to_be_focused()
        self.page.keyboard.type(text)

    def press(self, keys: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(keys)

    def button(self, name: str) -> Any:
        return self.page.get_by_role("button", name=name, exact=True)

    def places(self) -> dict[str, tuple[float, float]]:
        boxes = self.page.locator(".react-flow__node").evaluate_all(
            """nodes => nodes.map(node => {
                const box = node.getBoundingClientRect();
                return [node.dataset.id, box.x, box.y];
            })"""
        )
        return {name: (x, y) for name, x, y in boxes}

    def shoot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")
