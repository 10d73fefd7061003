"""The settings of a workspace, in its file ``settings.json``.

- ``remote_sources``   addresses that pipelines may read
- ``cluster``          address of the Dask scheduler whose workers run the pipelines of the studio

A pipeline never sets these: a document of someone else must not make this machine connect to
others.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine.atomic import replacing
from engine.errors import BadInput

REMOTE_SOURCES = "remote_sources"
CLUSTER = "cluster"
CLUSTER_ADDRESS = re.compile(r"(tcp|tls)://\S+:\d+")


def remote_sources(settings: Path, field: str | None = None) -> list[str]:
    """Return the addresses that pipelines may read; raise ``BadInput`` for a damaged file."""
    allowed = _read(settings, field).get(REMOTE_SOURCES, [])
    if not isinstance(allowed, list) or not all(isinstance(each, str) for each in allowed):
        raise _wrong_form(settings, field)
    return allowed


def cluster_address(settings: Path) -> str | None:
    """Return the address of the cluster that runs pipelines, None for this machine.

    Raise ``BadInput`` if the file is damaged.
    """
    address = _read(settings).get(CLUSTER)
    if address is None:
        return None
    return check_cluster_address(str(address), f"{settings}, {CLUSTER}")


def set_cluster_address(settings: Path, address: str | None) -> None:
    """Let a cluster run the pipelines of the studio, or with None this machine.

    Raise ``BadInput`` for an address that cannot be one, or if the file is damaged.
    """
    content = _read(settings)
    content.pop(CLUSTER, None)
    if address is not None:
        content[CLUSTER] = check_cluster_address(address, "Cluster")
    with replacing(settings) as written:
        written.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def check_cluster_address(address: str, where: str) -> str:
    """Return the address; raise ``BadInput``, which names ``where``, if it cannot be one."""
    if not CLUSTER_ADDRESS.fullmatch(address):
        raise BadInput(
            f"{where} {address}: write the address of a Dask scheduler as tcp://HOST:PORT."
        )
    return address


def _read(settings: Path, field: str | None = None) -> dict[str, Any]:
    """Return what the file holds; nothing if it does not exist."""
    try:
        content = json.loads(settings.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadInput(f"{settings} cannot be read: {error}", field=field) from error
    except (ValueError, RecursionError):  # not JSON, or not UTF-8
        content = None
    if not isinstance(content, dict):
        raise _wrong_form(settings, field)
    return content


def _wrong_form(settings: Path, field: str | None) -> BadInput:
    return BadInput(
        f'{settings} must have the form {{"{REMOTE_SOURCES}": ["s3://bucket"]}}; correct it',
        field=field,
    )
