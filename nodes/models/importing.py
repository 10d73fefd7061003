"""Import a model that was downloaded from a Models page.

The archive may come from anyone. A child process with limits unpacks it into an empty folder and
loads the model from there; only then the model is copied into the workspace. Nothing in the archive
decides where a file is written, and nothing is unpickled.

- ``import_model``   adds the model of a ZIP archive to a workspace
- ``suggested_name`` the name that an archive suggests
"""

from __future__ import annotations

import re
import stat
import tempfile
import time
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any

from engine import sandbox
from engine.errors import BadInput
from engine.processes import usable_memory
from engine.text import counted, listed, size
from engine.workspace import CLEANING_SECONDS
from nodes.models.model import FILE, load_model
from nodes.models.registry import MAX_ZIPPED, OPENING_SECONDS, Registry
from nodes.models.versions import NAME, Versions, card_data, split_reference

MAX_FILES = 10_000
"""Files of a model. A deep forest has some for each learner of each layer."""
MAX_UNPACKED = MAX_ZIPPED
"""Bytes of all files: as many as a model may have that can be downloaded."""
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
BLOCK = 1 << 20
HINT = "download the model again on the Models page, and import that file unchanged"


def import_model(
    registry: Registry,
    archive: Path,
    name: str | None = None,
    *,
    file_name: str | None = None,
    note: str = "",
    use: bool = True,
) -> tuple[str, int]:
    """Add the model of a ZIP archive to a workspace; return its name and its version.

    Raise ``BadInput`` if the archive is damaged, is too large, or does not hold a model.

    Parameters
    ----------
    name : the name of the model; by default the one that the archive suggests
    file_name : the archive as messages name it; by default its own name
    use : whether the new version is put in use; the first one of a name always is
    """
    file_name = file_name or archive.name
    name = name or suggested_name(file_name)
    if not re.match(NAME, name):
        raise BadInput(
            f"'{name}' cannot be the name of a model; use up to 64 letters, digits, dots, dashes "
            "and underscores, beginning with a letter or a digit",
            field="name",
        )
    workspace = registry.workspace.create()
    with (
        # `sylva gc` removes what is in the temporary folder.
        workspace.in_use(CLEANING_SECONDS),
        tempfile.TemporaryDirectory(prefix="import-", dir=workspace.temporary) as folder,
    ):
        unpacked = Path(folder) / name
        unpacked.mkdir()
        _unpack_guarded(archive, unpacked, file_name)
        card = _card(unpacked, file_name, note)
        versions = Versions(registry.folder / name)
        return name, versions.add(unpacked, card, use=use)


def suggested_name(file_name: str) -> str:
    """Return the name of a model for a file: ``fraud`` for ``fraud@2 (1).zip``."""
    stem = file_name.removesuffix(".zip")
    # Browsers add a number to the second download of a file.
    stem = re.sub(r"\s*\(\d+\)$", "", split_reference(stem)[0])
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", stem).strip("-.")[:64] or "model"


def _card(folder: Path, file_name: str, note: str) -> dict[str, Any]:
    """Return the card of an imported model.

    Data and evaluations are those that its file names. Its run belongs to another workspace.
    """
    known = card_data(folder)
    card: dict[str, Any] = {"imported": file_name, "saved": time.time()}
    if isinstance(known.get("card"), dict):
        card["card"] = known["card"]
    if note.strip():
        card["note"] = note.strip()
    return card


# In a child process


def _unpack_guarded(archive: Path, folder: Path, file_name: str) -> None:
    """Unpack an archive in a child process, and load the model there as a check."""
    call = sandbox.Call(
        "nodes.models.importing:unpack_in_child",
        file_name,
        {"archive": str(archive.absolute()), "folder": str(folder), "file_name": file_name},
        imports=("numpy", "lightgbm"),
        field="file",
        megabytes=usable_memory(),
        seconds=OPENING_SECONDS,
    )
    sandbox.call(call)


def unpack_in_child(archive: str, folder: str, file_name: str) -> None:
    """Unpack an archive into an empty folder and load the model; raise ``BadInput``."""
    try:
        with zipfile.ZipFile(archive) as opened:
            unpack(opened, Path(folder), file_name)
    except BadInput:
        raise
    # zlib, zipfile and the decoder of names raise very different errors for damaged files.
    except Exception as error:
        reason = str(error) or repr(error)
        raise BadInput(_refusal(file_name, reason), field="file") from error
    load_model(Path(folder))


def unpack(archive: zipfile.ZipFile, folder: Path, file_name: str) -> None:
    """Write the files of an archive into ``folder``.

    Raise ``BadInput`` unless they are plain files of one folder, and few and small enough.
    """
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES:
        raise BadInput(
            _refusal(file_name, f"it has {counted(len(members), 'file')}, more than {MAX_FILES:,}"),
            field="file",
        )
    paths = [PurePosixPath(member.filename) for member in members]
    refused = [member.filename for member in members if not _is_plain(member)]
    if refused:
        reason = f"{listed(refused, 3)} is not a file of a model"
        raise BadInput(_refusal(file_name, reason), field="file")
    if len({path.parent for path in paths}) > 1 or len({path.name for path in paths}) < len(paths):
        reason = "it has more than one folder, or a file twice"
        raise BadInput(_refusal(file_name, reason), field="file")
    if FILE not in {path.name for path in paths}:
        raise BadInput(_refusal(file_name, f"{FILE} is missing"), field="file")
    left = MAX_UNPACKED
    for member, path in zip(members, paths, strict=True):
        with archive.open(member) as source, (folder / path.name).open("xb") as target:
            left -= _copy(source, target, left, file_name)


def _is_plain(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is a regular file with a plain name, in at most one folder."""
    mode = member.external_attr >> 16
    parts = PurePosixPath(member.filename).parts
    is_regular = not stat.S_IFMT(mode) or stat.S_ISREG(mode)
    is_encrypted = member.flag_bits & 1
    return (
        is_regular
        and not is_encrypted
        and len(parts) <= 2
        and all(part != ".." and "\\" not in part and part != "/" for part in parts)
        and FILE_NAME.fullmatch(parts[-1]) is not None
    )


def _copy(source: IO[bytes], target: IO[bytes], most: int, file_name: str) -> int:
    """Copy a file and return its bytes; raise ``BadInput`` if there are more than ``most``.

    The size that the archive names is not trusted: a small file can be unpacked into terabytes.
    """
    copied = 0
    while block := source.read(BLOCK):
        copied += len(block)
        if copied > most:
            reason = f"its files have more than {size(MAX_UNPACKED)}"
            raise BadInput(
                f"'{file_name}' is too large: {reason}; copy the folder of the model instead",
                field="file",
            )
        target.write(block)
    return copied


def _refusal(file_name: str, reason: str) -> str:
    """Return the message for an archive that does not hold a model."""
    return f"'{file_name}' is not a model that was downloaded: {reason}; {HINT}"
