"""What the results of nodes depend on besides their pipeline: source code and libraries.

- ``environment``         versions of this machine, by name
- ``environment_digest``  the same as one hash, which is a part of every cache key
- ``plugin_versions``     versions of the packages that add node types
- ``differences``         what another machine has otherwise, in words

A Dask worker runs these functions even where Sylva is not installed, so this module uses the
standard library only.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

PRODUCT = "sylva-studio"
PACKAGES = ("deepforest", "engine", "nodes")
LIBRARIES = ("lightgbm", "numba", "numpy", "pyarrow", "scikit-learn")
SOURCE = "source code"
PLUGINS = "sylva.nodes"
"""The entry points of packages that add node types."""
MISSING = "not installed"

Versions = dict[str, str]


def environment() -> Versions:
    """Return the versions of Python, Sylva and the libraries that compute, and a source hash."""
    versions = {"Python": ".".join(platform.python_version_tuple()[:2])}
    versions |= {name: _version(name) for name in (PRODUCT, *LIBRARIES)}
    versions["xgboost"] = _version_of_xgboost()
    versions[SOURCE] = _source_hash()
    return versions


@cache
def environment_digest() -> str:
    """Return a hash of ``environment``; it is computed once in a process."""
    return hashlib.sha256(json.dumps(environment(), sort_keys=True).encode()).hexdigest()[:16]


def plugin_versions() -> Versions:
    """Return the versions of the installed packages that add node types, without Sylva itself."""
    found = {}
    for entry in metadata.entry_points(group=PLUGINS):
        if entry.dist is not None and entry.dist.name != PRODUCT:
            found[entry.dist.name] = entry.dist.version
    return found


def differences(here: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """Return, for each version that is not the expected one, a text that names both."""
    if MISSING in (here.get(PRODUCT), here.get(SOURCE)):
        return ["Sylva is not installed there"]
    texts = []
    for name, version in expected.items():
        found = here.get(name, MISSING)
        if found == version:
            continue
        if name == SOURCE:
            texts.append("its source code of Sylva is another one")
        else:
            texts.append(f"it has {name} {found}, the run has {version}")
    return texts


def _version(name: str) -> str:
    """Return the version of an installed package, or that it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return MISSING


def _version_of_xgboost() -> str:
    """Return the version of XGBoost, which is optional and comes as one of two packages."""
    found = [_version(name) for name in ("xgboost-cpu", "xgboost")]
    return next((version for version in found if version != MISSING), MISSING)


def _source_hash() -> str:
    """Return a hash of the Python files of Sylva that results depend on, if there are any."""
    content, found = hashlib.sha256(), False
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            for file in sorted(Path(folder).rglob("*.py")):
                content.update(f"{package}/{file.relative_to(folder)}\0".encode())
                content.update(file.read_bytes())
                found = True
    return content.hexdigest()[:16] if found else MISSING
