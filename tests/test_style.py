"""Rules of style that ruff does not know: see CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("deepforest", "engine", "nodes", "sylva", "ui")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

OLD_FASHIONED = re.compile(
    r"\b(is|are|was|were|be) no\b(?! (longer|more|less|better|worse|fewer|later))"
    r"|\b(is|are) (?-i:none)\b|\bmend(s|ed|ing)?\b|\bjudg(e|es|ed|ing|ment|ments)\b|\btold\b"
    r"|\bafresh\b|\banew\b|\bnobody\b|\bwhoever\b|\bwhosoever\b|\bfor ever\b"
    r"|\bgoes without saying\b|\bto learn from\b|\bto judge by\b|\bat work\b|\bcut off\b"
    r"|\bwithout a word\b|\bgo on with\b|\bgoes on\b|\bgoing on\b|\btell apart\b|\ball round\b"
    r"|\bis written in another way\b|\bsay what to\b|\bmost told\b|\bkept from before\b",
    re.IGNORECASE,
)


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in SOURCES:
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


def nested(kinds: tuple[type[ast.AST], ...]) -> list[str]:
    """Return the expressions of these kinds that hold another of these kinds."""
    found = []
    for path, tree in trees():
        for outer in ast.walk(tree):
            inside = list(ast.walk(outer))[1:] if isinstance(outer, kinds) else []
            if any(isinstance(inner, kinds) for inner in inside):
                found.append(place(path, outer))
    return found


def test_conditional_expressions_are_not_nested() -> None:
    assert nested((ast.IfExp,)) == []


def test_comprehensions_are_not_nested() -> None:
    assert nested(COMPREHENSIONS) == []


def imports(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield everything that a module imports, as dotted names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def test_no_package_imports_private_names_of_another() -> None:
    found = []
    for path, tree in trees():
        own = path.relative_to(ROOT).parts[0]
        for node, name in imports(tree):
            package, *parts = name.split(".")
            is_private = any(part.startswith("_") and not part.startswith("__") for part in parts)
            if package in PACKAGES and package != own and is_private:
                found.append(f"{place(path, node)} {name}")
    assert found == []


# Every node file calls its own parameters ``Params``. ``Column`` is a column of a table in engine,
# and a binned feature in the compiled kernels: a hash of their source names the compiled code, so
# a new name there would make every user wait for the compiler once more.
SHARED_CLASS_NAMES = {"Params", "Column"}


def test_a_class_name_has_one_meaning() -> None:
    """Public classes of ours have different names, but for ``SHARED_CLASS_NAMES``."""
    owners = defaultdict(list)
    for path, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners[node.name].append(place(path, node))
    several = {name: places for name, places in owners.items() if len(places) > 1}
    assert several.keys() <= SHARED_CLASS_NAMES, several
    assert len(several["Column"]) == 2, several["Column"]


@pytest.mark.parametrize("most", [40])
def test_words_are_modern(most: int) -> None:
    found = []
    for path in [*SOURCES, *sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            found += [
                f"{path.relative_to(ROOT)}:{number}: {match.group()}"
                for match in OLD_FASHIONED.finditer(line)
            ]
    assert len(found) < most, f"{len(found)} phrases:\n" + "\n".join(found[:200])
