"""Offer the tables that come with the studio: five classic data sets, and generated payments.

A source ``sample:NAME`` means one of them. What is known of a sample without reading it needs no
slow import, because every check of a pipeline asks for it.

- ``sample_name``, ``sample_path``, ``sample_columns``  what a source means
- ``source_title``, ``sample_titles``  a source as it is shown, and all samples
- ``payments``  the sample ``fraud``: a year of card payments, with columns of every kind
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import BadInput
from engine.node_types import Column, Columns
from engine.text import listed

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

PREFIX = "sample:"
TITLES = {
    "digits": "Handwritten digits, 8 by 8 pixels",
    "breast-cancer": "Breast cancer, measurements of cell nuclei",
    "wine": "Wines of three growers",
    "iris": "Iris flowers of three species",
    "diabetes": "Diabetes patients, progression of the disease as a number",
    "customers": "Generated visits of customers, some of whom leave",
    "fraud": "Generated payments, a few of them fraud",
}
SHORT_TITLES = {
    "digits": "Digits",
    "breast-cancer": "Breast cancer",
    "wine": "Wine",
    "iris": "Iris",
    "diabetes": "Diabetes",
    "customers": "Customers",
    "fraud": "Payments",
}
GROUPS = {"customers": "customer"}
"""The column of each sample whose equal values belong together."""

REGRESSIONS = ("diabetes",)
"""Samples whose target is a number."""
FRAUD_TARGET = "fraud"
FRAUD_COLUMNS = (
    Column("payment_id", "text", "id"),
    Column("time", "time", "time"),
    Column("amount", "number"),
    Column("usual_amount", "number"),
    Column("balance", "number"),
    Column("credit_limit", "number"),
    Column("payments_last_hour", "number"),
    Column("payments_last_day", "number"),
    Column("minutes_since_last", "number"),
    Column("kilometres_from_last", "number"),
    Column("hour", "number"),
    Column("account_age_days", "number"),
    Column("customer_age", "number"),
    Column("failed_pins", "number"),
    Column("address_changes", "number"),
    Column("merchant_risk", "number"),
    Column("session_seconds", "number"),
    Column("items", "number"),
    Column("channel", "category"),
    Column("merchant_type", "category"),
    Column("country", "category"),
    Column("device", "category"),
    Column("known_device", "bool"),
    Column("abroad", "bool"),
    Column(FRAUD_TARGET, "category", "target"),
)
MISSING = {
    "balance": 0.05,
    "customer_age": 0.08,
    "device": 0.06,
    "merchant_risk": 0.1,
    "session_seconds": 0.12,
}
"""Share of values that are missing, by column."""

CHANNELS = (["online", "chip", "contactless", "stripe"], [0.35, 0.33, 0.25, 0.07])
MERCHANTS = (
    [
        "groceries",
        "fuel",
        "restaurant",
        "clothing",
        "electronics",
        "travel",
        "gift cards",
        "pharmacy",
        "games",
        "other",
    ],
    [0.24, 0.12, 0.15, 0.11, 0.08, 0.06, 0.04, 0.07, 0.05, 0.08],
)
COUNTRIES = (
    ["DE", "FR", "NL", "PL", "GB", "US", "BR", "NG", "CN"],
    [0.5, 0.12, 0.08, 0.07, 0.08, 0.07, 0.03, 0.02, 0.03],
)
DEVICES = (["android", "ios", "windows", "mac", "linux"], [0.4, 0.33, 0.17, 0.08, 0.02])


def source_title(source: str) -> str:
    """Return a source as it is shown: ``Digits (sample)``, or the name of the file."""
    title = SHORT_TITLES.get(source.removeprefix(PREFIX)) if source.startswith(PREFIX) else None
    return f"{title} (sample)" if title else source


def sample_titles() -> dict[str, str]:
    """Return the titles of all samples, by their sources."""
    return {f"{PREFIX}{name}": source_title(f"{PREFIX}{name}") for name in SHORT_TITLES}


def sample_name(source: str) -> str | None:
    """Return the name of the sample that ``source`` means; None if it means a file.

    Raise ``BadInput`` if the sample does not exist.
    """
    if not source.startswith(PREFIX):
        return None
    name = source.removeprefix(PREFIX)
    if name not in TITLES:
        raise BadInput(
            f"the sample '{name}' does not exist; the samples are {listed(TITLES, most=9)}",
            field="source",
        )
    return name


def sample_path(name: str) -> Path:
    """Return the CSV file of a sample; ``fraud`` has none, because it is generated."""
    return Path(str(files("sample_pipelines") / "data" / f"{name}.csv"))


@cache
def sample_columns(name: str) -> Columns:
    """Return the columns of a sample with the roles that they have by default.

    The features of the files are numbers; their last column is the target.
    """
    if name == "fraud":
        return FRAUD_COLUMNS
    with sample_path(name).open(newline="", encoding="utf-8") as file:
        *features, target = next(csv.reader(file))
    return (
        *(
            Column(feature, "number", "group" if GROUPS.get(name) == feature else "feature")
            for feature in features
        ),
        Column(target, "number" if name in REGRESSIONS else "category", "target"),
    )


# The sample of payments
#
# Some values are missing. Fraud comes in four patterns. Each is a combination of values that are
# harmless one by one, and partly opposite from pattern to pattern. So a model has to find
# interactions; a linear model finds little. Some fraud looks like any other payment, so no model
# can find all of it.


def payments(rows: int, share: float, seed: int) -> pa.Table:
    """Return ``rows`` payments in order of time, of which ``share`` (at least two) are fraud.

    The same seed gives the same payments. The columns are those of ``FRAUD_COLUMNS``.
    """
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    values = _everyday(rng, rows)
    is_fraud = np.zeros(rows, bool)
    is_fraud[rng.permutation(rows)[: max(2, round(rows * share))]] = True
    # Before the sort by time, because fraud changes the hour.
    _commit(rng, values, np.flatnonzero(is_fraud))
    times = values.pop("day") * 86_400 + values["hour"] * 3_600 + values.pop("second")
    order = np.argsort(times, kind="stable")
    columns = {
        name: pa.array(column[order], mask=_gaps(rng, name, rows))
        for name, column in values.items()
    }
    columns["time"] = pa.array(
        np.datetime64("2024-01-01", "us") + times[order].astype("timedelta64[s]")
    )
    columns["payment_id"] = pa.array([f"P{number:07d}" for number in range(1, rows + 1)])
    columns[FRAUD_TARGET] = pa.array(np.where(is_fraud[order], "yes", "no"))
    return pa.table({column.name: columns[column.name] for column in FRAUD_COLUMNS})


def _gaps(rng: np.random.Generator, name: str, rows: int) -> np.ndarray | None:
    """Return which values of a column are missing; None if it has all values."""
    if name not in MISSING:
        return None
    return rng.random(rows) < MISSING[name]


def _everyday(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    """Return the columns of honest payments.

    Every customer has a usual amount, and most other columns do not depend on each other.
    """
    import numpy as np

    hours = np.array([2, 1, 1, 1, 1, 2, 3, 5, 6, 6, 6, 7, 8, 7, 6, 6, 7, 8, 8, 7, 6, 5, 4, 3])

    def one_of(choice: tuple[list[str], list[float]]) -> np.ndarray:
        """Return a random value for each row; a choice is values and their shares."""
        return rng.choice(choice[0], size=rows, p=np.array(choice[1]) / sum(choice[1]))

    usual = rng.lognormal(3.4, 0.6, rows)
    limit = np.round(usual * rng.uniform(20, 80, rows), -2).astype(int) + 500
    country = one_of(COUNTRIES)
    # A few honest customers pay often as well, so this column alone does not show fraud.
    per_hour = rng.poisson(0.25, rows) + rng.poisson(6, rows) * (rng.random(rows) < 0.015)
    return {
        "day": rng.integers(0, 366, rows),
        "second": rng.integers(0, 3600, rows),
        "amount": np.round(usual * rng.lognormal(-0.2, 0.9, rows), 2) + 0.01,
        "usual_amount": np.round(usual, 2),
        "balance": np.round(limit * rng.beta(1.5, 3, rows), 2),
        "credit_limit": limit,
        "payments_last_hour": per_hour,
        "payments_last_day": per_hour + rng.poisson(2.5, rows),
        "minutes_since_last": np.round(rng.exponential(600, rows), 1),
        "kilometres_from_last": np.round(rng.lognormal(1.2, 1.3, rows), 1),
        "hour": rng.choice(24, rows, p=hours / hours.sum()),
        "account_age_days": rng.gamma(1.3, 700, rows).astype(int),
        "customer_age": np.clip(rng.normal(44, 16, rows), 18, 95).astype(int),
        "failed_pins": rng.binomial(3, 0.04, rows),
        "address_changes": rng.poisson(0.3, rows),
        "merchant_risk": np.round(rng.beta(2, 5, rows), 3),
        "session_seconds": np.round(rng.lognormal(4.5, 0.8, rows), 1),
        "items": 1 + rng.poisson(1.5, rows),
        "channel": one_of(CHANNELS),
        "merchant_type": one_of(MERCHANTS),
        "country": country,
        "device": one_of(DEVICES),
        "known_device": rng.random(rows) < 0.94,
        "abroad": (country != "DE") & (rng.random(rows) < 0.3),
    }


def _commit(rng: np.random.Generator, values: dict[str, np.ndarray], frauds: np.ndarray) -> None:
    """Change the fraudulent rows to one of four patterns, or leave them as they are.

    The patterns are a stolen login, tests of card numbers, a copied card, and an account that
    spends its whole credit before it disappears.
    """
    pattern = rng.choice(5, len(frauds), p=[0.28, 0.24, 0.2, 0.18, 0.1])
    stolen_login, card_testing, copied_card, bust_out = (
        frauds[pattern == number] for number in range(4)
    )

    def times_usual(rows: np.ndarray, low: float, high: float) -> np.ndarray:
        """Return amounts of ``low`` to ``high`` times what the customer usually pays."""
        amount: np.ndarray = (
            values["usual_amount"][rows] * rng.uniform(low, high, len(rows))
        ).round(2)
        return amount

    values["channel"][stolen_login] = "online"
    values["known_device"][stolen_login] = False
    values["hour"][stolen_login] = rng.integers(0, 6, len(stolen_login))
    values["amount"][stolen_login] = times_usual(stolen_login, 1.5, 4)

    values["channel"][card_testing] = "online"
    values["payments_last_hour"][card_testing] = rng.integers(4, 12, len(card_testing))
    values["payments_last_day"][card_testing] += values["payments_last_hour"][card_testing]
    values["amount"][card_testing] = times_usual(card_testing, 0.01, 0.3)

    values["channel"][copied_card] = "stripe"
    values["abroad"][copied_card] = True
    values["minutes_since_last"][copied_card] = rng.uniform(1, 90, len(copied_card)).round(1)
    values["kilometres_from_last"][copied_card] = rng.lognormal(5, 1, len(copied_card)).round(1)

    values["account_age_days"][bust_out] = rng.integers(20, 300, len(bust_out))
    values["merchant_type"][bust_out] = rng.choice(
        ["electronics", "gift cards", "games"], len(bust_out)
    )
    values["balance"][bust_out] = (
        values["credit_limit"][bust_out] * rng.uniform(0.6, 1, len(bust_out))
    ).round(2)
    values["amount"][bust_out] = times_usual(bust_out, 1.5, 5)
