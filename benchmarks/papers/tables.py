"""Define the tables: figures of the papers, and data sets, methods, settings and seeds of ours.

- ``Table``, ``DataSet``, ``Method``  what a table is made of
- ``TABLES``                          all of them by name
- ``jobs_of``                         the jobs of a table
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Job = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """Hold a column of a table; it cannot run if ``deepforest`` lacks the name ``needs``."""

    name: str
    learner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""


@dataclass(frozen=True)
class DataSet:
    """Hold a line of a table.

    ``folder`` is the name of its data and ``split`` the rule that divides them. ``paper`` are the
    paper's figures by method; a paper that states a standard deviation has it in ``paper_sd``.
    ``changes`` are other settings of a method on this data set. Those that take longest have the
    highest ``turn`` and run last. ``is_papers_data`` is False if the paper had other rows.
    """

    title: str
    folder: str
    split: str
    seeds: int
    paper: Mapping[str, Any] = field(default_factory=dict)
    paper_sd: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    methods: tuple[str, ...] | None = None
    turn: int = 0
    is_papers_data: bool = True
    remark: str = ""


@dataclass(frozen=True)
class Table:
    """Hold a table: its data sets, its methods, and how it is scored."""

    name: str
    title: str
    sets: tuple[DataSet, ...]
    methods: tuple[Method, ...]
    scores: str = "accuracy"

    def methods_of(self, data: DataSet) -> list[Method]:
        """Return the methods that are measured on a data set."""
        chosen = data.methods
        return [each for each in self.methods if chosen is None or each.name in chosen]


def jobs_of(table: Table) -> Iterator[tuple[DataSet, Method, Job]]:
    """Yield every job of a table, with its data set and its method."""
    for data in table.sets:
        for method in table.methods_of(data):
            for seed in range(data.seeds):
                yield data, method, _job(table, data, method, seed)


def _job(table: Table, data: DataSet, method: Method, seed: int) -> Job:
    return {
        "table": table.name,
        "set": data.title,
        "method": method.name,
        "seed": seed,
        "data": data.folder,
        "split": data.split,
        "learner": method.learner,
        "settings": {**method.settings, **data.changes.get(method.name, {})},
        "scores": table.scores,
    }


def _forests(trees: int, count: int) -> list[dict[str, Any]]:
    kinds = ("random_forest", "completely_random_forest")
    return [{"kind": kind, "count": count, "n_estimators": trees} for kind in kinds]


# --- mdDF: table 1 of Lyu, Yang and Zhou ---

MDDF_METHODS = (
    # The five architectures of the paper.
    Method(
        "MLP",
        "network",
        {"hidden": [[1024, 512], [16, 8, 8], [70, 50], [50, 30], [30, 20]]},
    ),
    Method("RF", "random_forest", {"trees": 2000}),
    Method("LightGBM", "boosting", {"most_trees": 2000}),
    Method("gcForest", "cascade", {"preset": "gcforest", "learners": _forests(100, 2)}),
    Method("mdDF", "cascade", {"preset": "mddf"}),
    Method("SF", "cascade", {"preset": "mddf_sf"}),
    Method("ST", "cascade", {"preset": "mddf_st"}),
    Method("NP", "cascade", {"preset": "mddf_np"}),
    Method(
        "gcForest, per layer",
        "cascade",
        {"preset": "gcforest", "learners": _forests(100, 2), "resampling": "per_layer"},
    ),
    Method("mdDF, per layer", "cascade", {"preset": "mddf", "resampling": "per_layer"}),
    Method("default", "cascade", {"preset": "default"}),
)
_MDDF_COLUMNS = ("MLP", "RF", "LightGBM", "gcForest", "mdDF", "SF", "ST", "NP")


def _mddf(*accuracies: float) -> dict[str, float]:
    """Return the paper's accuracies by method; its XGBoost is beside our LightGBM."""
    paper = dict(zip(_MDDF_COLUMNS, accuracies, strict=True))
    for method in ("gcForest", "mdDF"):
        paper[f"{method}, per layer"] = paper[method]
    return paper


MDDF = Table(
    "mddf",
    "mdDF",
    (
        DataSet(
            "yeast",
            "yeast",
            "standard",
            5,
            _mddf(59.641, 61.886, 59.161, 63.004, 63.340, 63.000, 62.780, 62.556),
            remark="random 70/30 splits; the paper's split is not known",
        ),
        DataSet(
            "satimage",
            "satimage",
            "standard",
            3,
            _mddf(91.125, 91.200, 90.450, 91.700, 91.750, 91.600, 91.300, 90.800),
        ),
        DataSet(
            "letter",
            "letter",
            "standard",
            3,
            _mddf(96.025, 96.575, 95.850, 97.375, 97.500, 96.475, 97.300, 96.975),
        ),
        DataSet(
            "adult",
            "adult",
            "standard",
            3,
            _mddf(80.597, 85.818, 85.904, 86.276, 86.560, 86.200, 85.710, 85.650),
        ),
        DataSet(
            "protein (part)",
            "protein_val_only",
            "standard",
            5,
            _mddf(68.660, 68.071, 71.214, 71.009, 71.247, 71.127, 70.291, 68.509),
            is_papers_data=False,
            remark="2,871 of the 24,387 rows, random 70/30 splits: not comparable with the paper",
        ),
        DataSet(
            "mnist",
            "mnist",
            "standard",
            1,
            _mddf(98.621, 96.831, 97.730, 98.252, 98.734, 98.254, 98.101, 98.240),
            changes={"RF": {"trees": 500}},
            turn=2,
            remark="random forest of 500 trees: 2,000 of scikit-learn's would take 5 GB",
        ),
    ),
    MDDF_METHODS,
)
MDDF_NOT_HERE = {
    "HAR": _mddf(94.231, 92.569, 93.112, 94.224, 94.600, 93.926, 94.290, 94.060),
    "SENSIT": _mddf(78.957, 80.133, 81.874, 82.334, 82.534, 82.014, 80.412, 80.320),
}

# --- RCF: table 1 of DeSalvo and Mohri ---


def _rcf(title: str, folder: str, *figures: tuple[float, float]) -> DataSet:
    """Return a data set with the paper's errors and standard deviations."""
    names = ("RF", "RCF", "RF+SVM")
    errors = {name: error for name, (error, _) in zip(names, figures, strict=True)}
    deviations = {name: sd for name, (_, sd) in zip(names, figures, strict=True)}
    return DataSet(title, folder, "at random", 5, errors, deviations)


_COMPOSITE = {"trees": 100, "trial_trees": 20, "depths": [2, 3, 5]}
RCF = Table(
    "rcf",
    "Random Composite Forests",
    (
        _rcf("iris", "iris", (13.3, 1.10), (10.0, 1.50), (12.0, 1.6)),
        _rcf("sonar", "sonar", (21.9, 4.85), (16.2, 3.80), (28.09, 2.3)),
        _rcf("vowel", "vowel", (5.28, 0.46), (3.77, 0.45), (4.5, 1.38)),
        _rcf("australian", "australian", (19.4, 0.85), (17.4, 0.98), (17.4, 0.55)),
        _rcf("vehicle", "vehicle", (28.4, 0.53), (27.9, 1.10), (31.2, 2.19)),
        _rcf("german", "german_numeric", (26.6, 0.37), (24.2, 0.60), (23.0, 0.63)),
        _rcf("dna", "dna", (3.55, 0.10), (3.30, 0.10), (6.3, 1.79)),
        _rcf("a2a", "a2a", (18.1, 0.49), (17.5, 0.18), (19.47, 0.21)),
        _rcf("usps", "usps", (9.80, 0.30), (7.48, 0.16), (7.7, 0.15)),
        _rcf("pendigits", "pendigits", (1.25, 0.14), (0.29, 0.03), (0.31, 0.08)),
        _rcf("abalone", "abalone", (75.3, 1.15), (71.7, 0.66), (75.1, 0.24)),
    ),
    (
        Method("RF", "tuned_random_forest", {"trees": 500}),
        Method(
            "RCF",
            "composite_forest",
            {"selection": "bound", **_COMPOSITE},
            needs="CompositeForestClassifier",
        ),
        Method(
            "RF+SVM",
            "composite_forest",
            {"selection": "none", **_COMPOSITE},
            needs="CompositeForestClassifier",
        ),
        Method("one SVM", "polynomial_svm"),
    ),
)

# --- gcForest-CS: section V of Pang, Ting, Zhao and Zhou ---

STARTING_TREES = (20, 50, 100)
# How the trees grow in number as rows leave, besides the library's default: not at all, or by the
# paper's rule, in proportion to m / m_t.
TREE_GROWTH = {"no more trees": 0.0, "the paper's trees": 1000.0}
# The papers' way: new folds in every layer. The other one scores layers on blind rows.
WAYS = {
    "per layer": {"resampling": "per_layer", "scoring": "accuracy"},
    "nested": {"resampling": "nested", "scoring": "log_loss"},
}


def _screening_methods() -> Iterator[Method]:
    """Yield gcForest and gcForest-CS without scanning: 1 + 1 forests, 3 folds."""
    plain = {"preset": "gcforest", "cv": 3, "combine": "mean", "pass_on": "vectors"}
    for way, changes in WAYS.items():
        for trees in (*STARTING_TREES, 500):
            settings = {**plain, "learners": _forests(trees, 1), **changes}
            yield Method(f"gcForest, {trees} trees, {way}", "cascade", settings)
        for trees in STARTING_TREES:
            settings = {"preset": "gcforest_cs", "learners": _forests(trees, 1), **changes}
            yield Method(f"gcForest-CS, w = {trees}, {way}", "cascade", settings)
        for words, growth in TREE_GROWTH.items():
            name = f"gcForest-CS, w = {trees}, {way}, {words}"
            yield Method(name, "cascade", {**settings, "tree_growth": growth})


_UNSCANNED = tuple(method.name for method in _screening_methods())


def _scanned(name: str, preset: str, scan: dict[str, Any]) -> Method:
    """Return gcForest or gcForest-CS with scanning: 4 + 4 forests of 100 trees, 3 folds."""
    settings = {"preset": preset, "learners": _forests(100, 4), "cv": 3, "scan": scan}
    return Method(name, "cascade", {**settings, **WAYS["per layer"]}, needs="MultiGrainedScanner")


_TENTH = {"windows": "fine", "sample": 0.1}
_SCANNED = (
    _scanned("gcForest, all windows of three sizes", "gcforest", {"windows": "auto"}),
    _scanned("gcForest, a tenth of the small windows", "gcforest", _TENTH),
    _scanned("gcForest-CS, a tenth of the small windows", "gcforest_cs", _TENTH),
)
SCREENING = Table(
    "cs",
    "gcForest-CS",
    (
        DataSet("letter", "letter", "standard", 3, methods=_UNSCANNED),
        DataSet("adult", "adult", "standard", 3, methods=_UNSCANNED),
        DataSet("usps", "usps", "image", 2, methods=tuple(each.name for each in _SCANNED)),
        DataSet(
            "mnist",
            "mnist",
            "image",
            1,
            methods=tuple(each.name for each in _SCANNED[1:]),
            turn=2,
        ),
    ),
    (*_screening_methods(), *_SCANNED),
)

# --- fraud: tables 2 to 5 of Zhang et al. ---

FRAUD_METRICS = ("AUC", "F1", "KS", "recall at 1/10,000", "recall at 1/1,000", "recall at 1/100")


def _fraud(*figures: float) -> dict[str, float]:
    return dict(zip(FRAUD_METRICS, figures, strict=True))


FRAUD_PAPER = {
    "LR": _fraud(0.9887, 0.4334, 0.8956, 0.3708, 0.5603, 0.8762),
    "MLP": _fraud(0.9722, 0.3861, 0.8551, 0.3165, 0.4991, 0.8471),
    "MART": _fraud(0.9957, 0.5201, 0.9424, 0.4661, 0.6716, 0.9358),
    "gcForest-d": _fraud(0.9962, 0.5247, 0.9444, 0.4703, 0.6775, 0.9397),
    "gcForest-t": _fraud(0.9970, 0.5440, 0.9480, 0.4880, 0.6950, 0.9470),
}
FRAUD = Table(
    "fraud",
    "Fraud",
    (
        DataSet("KDD99 R2L and U2R", "kdd99_r2l_u2r", "distinct rows", 3, FRAUD_PAPER),
        DataSet("generated payments", "payments", "payments", 1, FRAUD_PAPER, turn=1),
    ),
    (
        Method("LR", "fraud_logistic"),
        Method("MLP", "fraud_network", {"hidden": [[100], [300, 100]]}),
        Method("MART", "fraud_boosting", {"trees": 600}),
        Method("gcForest-d", "fraud_cascade", {"preset": "mart_cascade"}),
        Method("gcForest-t", "fraud_cascade", {"preset": "mart_cascade_tuned"}),
    ),
    scores="fraud",
)

# --- multi-grained scanning ---


def _scanning(name: str, scan: dict[str, Any]) -> Method:
    settings = {"preset": "default", "scan": scan}
    return Method(name, "cascade", settings, needs="MultiGrainedScanner")


_FACES = ("without scanning", "20 windows of each size")
_ALL_WINDOWS = ("without scanning", "all windows", "a tenth of the windows")
SCANNING = Table(
    "scanning",
    "Multi-grained scanning",
    (
        DataSet("digits, 8 × 8", "digits", "image", 5, methods=_ALL_WINDOWS),
        DataSet("ORL, 5 images of each person", "orl_faces", "5 faces", 3, methods=_FACES),
        DataSet("ORL, 7 images of each person", "orl_faces", "7 faces", 3, methods=_FACES),
        DataSet("ORL, 9 images of each person", "orl_faces", "9 faces", 3, methods=_FACES),
        DataSet("usps, 16 × 16", "usps", "image", 2, methods=_ALL_WINDOWS),
        DataSet(
            "mnist, 28 × 28",
            "mnist",
            "image",
            1,
            methods=("without scanning", "a tenth of the windows"),
            turn=2,
        ),
    ),
    (
        Method("without scanning", "cascade", {"preset": "default"}),
        _scanning("all windows", {"windows": "auto"}),
        _scanning("a tenth of the windows", {"windows": "auto", "sample": 0.1}),
        _scanning("20 windows of each size", {"windows": "auto", "sample": 20}),
    ),
)

TABLES = {table.name: table for table in (RCF, MDDF, SCREENING, FRAUD, SCANNING)}

NOT_HERE = {
    "HAR": "mdDF",
    "SENSIT": "mdDF",
    "PROTEIN": "mdDF; 2,871 of its 24,387 rows are here",
    "IMDB": "gcForest-CS",
    "sEMG": "gcForest-CS",
    "CIFAR-10": "gcForest-CS",
    "Ant Financial's transactions": "fraud; never published",
}
"""The papers' data sets that are not here, with the paper that has them."""
