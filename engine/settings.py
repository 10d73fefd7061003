"""The settings of a workspace, in its file ``settings.json``.

- ``remote_sources``   addresses that pipelines may read
- ``storages``         addresses that may hold the data of cluster runs
- ``cluster``          address of the Dask scheduler whose workers run the pipelines of the studio
- ``cluster_storage``  where these workers find the data, if they do not see the workspace

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
STORAGES = "storages"
CLUSTER = "cluster"
CLUSTER_STORAGE = "cluster_storage"
LAST_PORT = 65_535
CLUSTER_ADDRESS = re.compile(r"(tcp|tls)://[^\s/@]+:(\d{1,5})")
STORAGE_ADDRESS = re.compile(
    r"((s3|gs|abfs)://[A-Za-z0-9._-]+(@[A-Za-z0-9-]+\.dfs\.core\.windows\.net)?|file://)"
    r"(/[A-Za-z0-9._=+-]+)*"
)
"""Names only: neither a password nor a parameter fits in."""


def remote_sources(settings: Path, field: str | None = None) -> list[str]:
    """Return the addresses that pipelines may read; raise ``BadInput`` for a damaged file."""
    return _addresses(settings, REMOTE_SOURCES, field)


def storages(settings: Path) -> list[str]:
    """Return the addresses that may hold the data of cluster runs."""
    return _addresses(settings, STORAGES)


def require_storage(settings: Path, address: str) -> None:
    """Raise ``BadInput`` unless the settings allow that an address holds the data of a run."""
    if not any(covers(allowed, address) for allowed in storages(settings)):
        raise BadInput(
            f"this workspace does not allow writing to '{address}'; to allow it, write "
            f'{{"{STORAGES}": ["{address}"]}} into {settings}'
        )


def covers(allowed: str, address: str) -> bool:
    """Return whether an entry of the settings allows an address: it is the same, or above it."""
    allowed = allowed.rstrip("/")
    return address == allowed or address.startswith(allowed + "/")


def check_storage_address(address: str, where: str) -> str:
    """Return the address; raise ``BadInput``, which names ``where``, if it cannot be one.

    The message does not repeat the address, which may contain a password.
    """
    address = address.rstrip("/")
    parts = address.partition("://")[2].split("/")
    named = STORAGE_ADDRESS.fullmatch(address) and not {".", ".."} & set(parts)
    if not named or not any(parts):
        raise BadInput(
            f"{where}: write an address such as s3://BUCKET/FOLDER, gs://, abfs:// or "
            "file:///FOLDER, without user, password and spaces; credentials come from the "
            "environment of each machine."
        )
    return address


def cluster_storage(settings: Path) -> str | None:
    """Return where the cluster finds the data of runs, None if it sees the workspace.

    Raise ``BadInput`` if the file is damaged or does not allow this address.
    """
    address = _read(settings).get(CLUSTER_STORAGE)
    if address is None:
        return None
    checked = check_storage_address(str(address), f"{settings}, {CLUSTER_STORAGE}")
    require_storage(settings, checked)
    return checked


def cluster_address(settings: Path) -> str | None:
    """Return the address of the cluster that runs pipelines, None for this machine.

    Raise ``BadInput`` if the file is damaged.
    """
    address = _read(settings).get(CLUSTER)
    if address is None:
        return None
    return check_cluster_address(str(address), f"{settings}, {CLUSTER}")


def set_cluster(settings: Path, address: str | None, storage: str | None = None) -> None:
    """Let a cluster run the pipelines of the studio, or with None this machine.

    ``storage`` is where its workers find the data, None if they see the workspace. Raise
    ``BadInput`` for an address that cannot be one or is not allowed, or if the file is damaged.
    """
    content = _read(settings)
    content.pop(CLUSTER, None)
    content.pop(CLUSTER_STORAGE, None)
    if address is not None:
        content[CLUSTER] = check_cluster_address(address, "Cluster")
    if address is not None and storage is not None:
        content[CLUSTER_STORAGE] = check_storage_address(storage, "Storage")
        require_storage(settings, content[CLUSTER_STORAGE])
    with replacing(settings) as written:
        written.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def check_cluster_address(address: str, where: str) -> str:
    """Return the address; raise ``BadInput``, which names ``where``, if it cannot be one.

    The message does not repeat the address, which may contain a password.
    """
    parts = CLUSTER_ADDRESS.fullmatch(address)
    if parts is None or int(parts[2]) > LAST_PORT:
        raise BadInput(
            f"{where}: write the address of a Dask scheduler as tcp://HOST:PORT, with a port up to "
            f"{LAST_PORT}, without user and password."
        )
    return address


def _addresses(settings: Path, name: str, field: str | None = None) -> list[str]:
    """Return a list of addresses; raise ``BadInput`` if it is something else."""
    allowed = _read(settings, field).get(name, [])
    if not isinstance(allowed, list) or not all(isinstance(each, str) for each in allowed):
        raise _wrong_form(settings, field, name)
    return allowed


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
        raise BadInput(
            f'{settings} must be a JSON object such as {{"{REMOTE_SOURCES}": ["s3://bucket"], '
            f'"{STORAGES}": ["s3://bucket/folder"]}}; correct it',
            field=field,
        )
    return content


def _wrong_form(settings: Path, field: str | None, name: str) -> BadInput:
    """Return the message for a setting that is not a list of addresses."""
    return BadInput(
        f'{settings} must have the form {{"{name}": ["s3://bucket"]}}; correct it',
        field=field,
    )
