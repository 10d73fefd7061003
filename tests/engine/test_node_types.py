from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from engine.node_types import GROUP, NodeCatalog, catalog_of, load_catalog
from tests.engine import fakes

not_a_node_type = "something else"
some_and_a_stranger = [fakes.READ, 3]
none_at_all: list[object] = []
generated = (node_type for node_type in (fakes.READ, fakes.SPLIT))


def entry(attribute: str, module: str = __name__) -> EntryPoint:
    return EntryPoint("extra", f"{module}:{attribute}", GROUP)


def test_a_catalog_is_a_mapping_of_names_to_node_types():
    catalog = NodeCatalog([fakes.READ, fakes.SPLIT])
    assert list(catalog) == ["read", "split"]
    assert catalog["read"] is fakes.READ
    assert len(catalog) == 2
    assert "learn" not in catalog
    assert catalog.failures == []


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (entry("READ", "tests.engine.fakes"), ["read"]),
        (entry("generated"), ["read", "split"]),
        (entry("none_at_all"), []),
    ],
)
def test_an_entry_point_gives_one_node_type_or_several(given, names):
    catalog = catalog_of([given])
    assert list(catalog) == names
    assert catalog.failures == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (entry("not_there"), "AttributeError"),
        (entry("x", "no_such_module"), "No module named 'no_such_module'"),
        (entry("not_a_node_type"), "gives a str where a NodeType is expected"),
        (entry("some_and_a_stranger"), "gives a int where a NodeType is expected"),
    ],
)
def test_an_entry_point_that_fails_is_named_and_the_others_still_work(bad, reason):
    catalog = catalog_of([bad, entry("SPLIT", "tests.engine.fakes")])
    assert list(catalog) == ["split"]
    assert len(catalog.failures) == 1
    assert reason in catalog.failures[0]
    assert "entry point 'extra'" in catalog.failures[0]


def test_a_module_that_exits_on_import_does_not_end_the_program(tmp_path, monkeypatch):
    (tmp_path / "module_that_exits.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    assert "SystemExit" in catalog_of([entry("x", "module_that_exits")]).failures[0]


def test_of_two_node_types_with_one_name_the_first_stays():
    catalog = catalog_of([entry("READ", "tests.engine.fakes"), entry("READ", "tests.engine.fakes")])
    assert list(catalog) == ["read"]
    assert "'read'" in catalog.failures[0]
    assert "already has a node type of that name" in catalog.failures[0]


def test_the_installed_node_types_are_loaded_once():
    assert load_catalog() is load_catalog()


def test_documents_are_read_without_slow_imports():
    script = (
        "import sys, engine.node_types, engine.pipeline, engine.validation, engine.edits;"
        "slow = ('networkx', 'numpy', 'pyarrow', 'sklearn', 'pandas')\n"
        "print([m for m in slow if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
        == "[]\n"
    )
