"""Describe the windows of a forest that scans: how much each position knows of the class.

- ``describe_scans``  the scans of a cascade as plain data, for ``Layers.scans``
- ``check_scans``     checks such data from a file
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

DECIMALS = 4


def describe_scans(cascade: Any) -> list[dict[str, Any]]:
    """Return one entry for each scan of a cascade; empty if it does not scan.

    An entry has the number of its ``layer``, the ``shape`` of a row, ``class_rows``, and ``grains``
    with size, positions and recalls: for each position the share of the rows of each class that it
    predicts right, of training rows that its trees did not learn. The first entry also has the
    ``importances`` of all values of a row in the whole model.
    """
    scans = []
    for number, layer in enumerate(cascade.cascades_[0].layers, 1):
        if layer.scan is None:
            continue
        grains = []
        for grain, recalls in zip(layer.scan.grains, layer.scan.recalls, strict=True):
            grains.append(
                {
                    "size": list(grain.size),
                    "positions": grain.positions.tolist(),
                    "recalls": recalls.round(DECIMALS).tolist(),
                }
            )
        scans.append(
            {
                "layer": number,
                "shape": list(layer.scan.shape),
                "class_rows": layer.scan.class_rows.tolist(),
                "grains": grains,
                "importances": [],
            }
        )
    if scans:
        scans[0]["importances"] = cascade.feature_importances_.round(DECIMALS + 2).tolist()
    return scans


def check_scans(scans: Sequence[Any], n_classes: int) -> None:
    """Raise ``ValueError`` unless these are descriptions of scans."""
    for scan in scans:
        shape = scan["shape"]
        n_values = math.prod(shape)
        parts = [len(scan["class_rows"]) == n_classes, len(shape) in (1, 2, 3)]
        parts.append(len(scan["importances"]) in (0, n_values))
        for grain in scan["grains"]:
            axes = len(grain["size"])
            parts += [axes == min(len(shape), 2), len(grain["positions"]) == len(grain["recalls"])]
            parts.append(all(len(position) == axes for position in grain["positions"]))
            parts.append(all(len(recalls) == n_classes for recalls in grain["recalls"]))
        if not all(parts) or not scan["grains"]:
            raise ValueError("its windows do not fit each other")
