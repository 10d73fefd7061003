"""Events written into a run log in their stored form, as this or an older version wrote them."""

from __future__ import annotations

import json
import time
from typing import Any

from engine.events import INSERT_EVENT, EventLog


def append_stored(log: EventLog, run: str, kind: str, node: str | None = None, **data: Any) -> None:
    """Add a row to the log; ``data`` need not be valid."""
    log._write_rows(INSERT_EVENT, [(run, time.time(), kind, node, json.dumps(data))])
