"""Damage on disk is found when it matters, and what was damaged is made again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.lab import Lab, Outputs, Pipeline, pipeline

Undisturbed = Callable[[Pipeline], Outputs]
Damage = Callable[[Path], object]


def chain(last: int = 8) -> Pipeline:
    return pipeline(
        first={},
        second={"after": "first"},
        third={"after": "second"},
        last={"after": "third", "value": last},
    )


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def flip_a_byte_unseen(path: Path) -> None:
    """Size and time stay as they were: as a failing disk would do it."""
    before = path.stat()
    flip_a_byte(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def remove(path: Path) -> None:
    path.unlink()


def remove_folder(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def garbage(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


def edited(**facts: object) -> Damage:
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | facts))


slow = pytest.mark.slow
OBJECT_DAMAGE = [
    pytest.param(flip_a_byte, marks=slow),
    flip_a_byte_unseen,
    pytest.param(truncate, marks=slow),
    pytest.param(remove, marks=slow),
    pytest.param(remove_folder, marks=slow),
    pytest.param(replace_by_folder, marks=slow),
]
RECORD_DAMAGE = {
    "empty": garbage(b""),
    "binary": garbage(b"\xff\xfe\x00"),
    "half": truncate,
    "null": garbage(b"null"),
    "number": garbage(b"7"),
    "text": garbage(b'"x"'),
    "list": garbage(b"[]"),
    "deep": garbage(b"[" * 100_000),
    "no_facts": garbage(b"{}"),
    "no_outputs": edited(outputs=None),
    "wrong_outputs": edited(outputs=[1]),
    "wrong_output": edited(outputs={"report": 5}),
    "wrong_digest": edited(outputs={"report": {"type": "report", "digest": 5, "files": {}}}),
    "wrong_files": edited(
        outputs={"report": {"type": "report", "digest": "5", "files": {"a": {"size": 1}}}}
    ),
    "wrong_type": edited(outputs={"report": {"type": "table", "digest": "5", "files": {}}}),
    "other_port": edited(outputs={"table": {"type": "table", "digest": "5", "files": {}}}),
    "gone": remove,
}


@pytest.mark.parametrize("damage", OBJECT_DAMAGE)
@pytest.mark.slow
def test_a_damaged_output_that_is_needed_is_made_again(
    damage: Damage, lab: Lab, undisturbed: Undisturbed
) -> None:
    first = lab.run(chain())
    damage(lab.object_file(first, "third"))
    changed = lab.run(chain(last=64))
    assert (changed.code, changed.json["state"]) == (0, "done")
    assert changed.outputs == undisturbed(chain(last=64))
    assert lab.executions() == {"first": 1, "second": 1, "third": 2, "last": 2}
    assert lab.object_file(changed, "third").is_file()
    lab.nothing_is_left()


@slow
def test_damage_all_along_a_chain_is_mended_all_along(lab: Lab, undisturbed: Undisturbed) -> None:
    first = lab.run(chain())
    for node in ("first", "second", "third"):
        flip_a_byte_unseen(lab.object_file(first, node))
    changed = lab.run(chain(last=64))
    assert (changed.code, changed.outputs) == (0, undisturbed(chain(last=64)))
    assert lab.executions() == {"first": 2, "second": 2, "third": 2, "last": 2}


@slow
def test_damage_two_nodes_find_at_once_is_mended_once(lab: Lab, undisturbed: Undisturbed) -> None:
    def fan(extra: int) -> Pipeline:
        nodes = {f"leaf_{index}": {"after": "root", "value": extra + index} for index in range(4)}
        return pipeline(root={}, **nodes)

    first = lab.run(fan(1))
    flip_a_byte_unseen(lab.object_file(first, "root"))
    changed = lab.run(fan(100))
    assert (changed.code, changed.outputs) == (0, undisturbed(fan(100)))
    assert lab.executions()["root"] == 2


@slow
def test_a_run_resumed_on_a_damaged_store_mends_it(lab: Lab, undisturbed: Undisturbed) -> None:
    killed = lab.run(chain(), fault="before-run:last:both")
    flip_a_byte_unseen(lab.object_file(killed, "third"))
    remove(lab.object_file(killed, "second"))
    resumed = lab.resume()
    assert (resumed.code, resumed.outputs) == (0, undisturbed(chain()))
    assert lab.executions() == {"first": 1, "second": 2, "third": 2, "last": 1}


@slow
def test_records_that_say_nothing_sensible_do_not_count(lab: Lab) -> None:
    def document(value: int) -> Pipeline:
        nodes = {name: {"value": index} for index, name in enumerate(RECORD_DAMAGE)}
        return pipeline(**nodes, total={"after": " ".join(nodes), "value": value})

    first = lab.run(document(1))
    for name, damage in RECORD_DAMAGE.items():
        damage(lab.record_file(first, name))
    changed = lab.run(document(2))
    assert (changed.code, set(changed.states.values())) == (0, {"done"})
    assert all(changed.outputs[name] == first.outputs[name] for name in RECORD_DAMAGE)
    assert set(lab.executions().values()) == {2}


@slow
@pytest.mark.parametrize(
    "damage", [truncate, garbage(b"nothing like a database" * 100), flip_a_byte]
)
def test_a_damaged_run_log_gives_a_plain_message_or_works(damage: Damage, lab: Lab) -> None:
    assert lab.run(chain()).code == 0
    damage(lab.workspace / "sylva.db")
    for answer in (lab.sylva("runs"), lab.sylva("show", "last"), lab.run(chain())):
        assert answer.code in (0, 1, 2)
        assert answer.code == 0 or answer.err or answer.json["error"]
