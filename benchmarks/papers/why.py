"""Write ``docs/why.md``: where a deep forest pays and where not, from the papers' results.

- ``write_why``  the page from results
- ``why_text``   the same as text

The tables and all sentences with figures are made from the results. Only what holds for any seed is
written by hand.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from .._figures import ROOT, write_whole
from .cells import (
    ResultIndex,
    cpu_cell,
    cpu_ratio,
    differences,
    markdown,
    mean,
    mean_sd,
    points_cell,
    ratio_cell,
    rows_and_seeds,
    wrapped,
)
from .page import ACCURACY_LOSS, SAVING_GOAL, papers_gcforest, rcf_errors, without_screening
from .results import Result
from .tables import FRAUD, MDDF, RCF, SCANNING, SCREENING, DataSet

WHY = ROOT / "docs" / "why.md"
DEPTHS = ("default", "gcForest, per layer", "mdDF, per layer")


def write_why(results: Iterable[Result], file: Path = WHY) -> None:
    """Write the page from results."""
    write_whole(file, why_text(results))


def why_text(results: Iterable[Result]) -> str:
    """Return the page; a table leaves out the data sets without results."""
    found = ResultIndex(results)
    sections = (
        _introduction(),
        _depth_section(found),
        _margin_section(found),
        _boosting_section(found),
        _screening_section(found),
        _composite_section(found),
        _scanning_section(found),
    )
    return "\n\n".join(sections) + "\n"


def _introduction() -> str:
    return f"""# Why a deep forest, and when not

A deep forest is a cascade of layers of forests: each layer sees the columns and the class
probabilities of the layer before. It is worth its time on some tables and not on others.

- **Try boosting first.** It is one fit, and often as good.
- **Then a deep forest with its defaults.** It needs no tuning, grows only as deep as held-out rows
  say, and its class probabilities are calibrated.
- **For images and sequences, try a scan as well.**
- **For a small table of numbers, also try one SVM,** then a composite forest.

Whether a difference is more than chance depends on your test rows: `Compare` shows intervals.

`make paper-tables` writes this page, all its figures included, from the same results as
[the papers' tables](results.md). There are their seeds, settings, and the figures of all methods.
CPU is that of one thread. Results of {DEPTHS[0]!r} are of the library's default cascade."""


# --- depth ---


def _depth_section(found: ResultIndex) -> str:
    lines = []
    for data in MDDF.sets:
        for method in DEPTHS:
            runs = _with_layers(found.of(MDDF, data, method))
            if runs:
                lines.append([data.title, method, *_depth_cells(runs)])
    table = ""
    if lines:
        head = ["data", "cascade", "layers kept", "first layer, %", "all layers, %"]
        table = markdown([*head, "points more", "standard error of the test rows"], lines)
        table += "\n\n"
    return f"""## Where depth pays

Accuracy on test rows after the first layer, and after all layers that were kept. A layer is kept
while held-out rows gain; "per layer" is the papers' way to score them. The first layer alone is the
mean of its learners, without any depth.

{table}{wrapped(_depth_summary(found))}

Where the first layer is already as good as the columns allow, the cascade stops after one or two
layers: depth is never forced, and one that does not pay is not kept. More depth is not the same as
more accuracy; look at the margins and scores of the layers on the Inspect page."""


def _with_layers(runs: Sequence[Result]) -> list[Result]:
    """Return the results that have the accuracy after each layer."""
    return [run for run in runs if "by_layer" in run]


def _gains(runs: Iterable[Result]) -> list[float]:
    """Return what all layers add to the accuracy of the first, in points, for each seed."""
    accuracies = [run["by_layer"]["accuracy"] for run in runs]
    return [each[-1] - each[0] for each in accuracies]


def _depth_cells(runs: Sequence[Result]) -> list[str]:
    accuracies = [run["by_layer"]["accuracy"] for run in runs]
    return [
        f"{statistics.mean(run['chosen']['layers'] for run in runs):.1f}",
        mean_sd([each[0] for each in accuracies]),
        mean_sd([each[-1] for each in accuracies]),
        mean_sd(_gains(runs), signed=True),
        f"{test_error(runs):.2f}",
    ]


def test_error(runs: Sequence[Result]) -> float:
    """Return the standard error of an accuracy on these test rows, in points."""
    share = statistics.mean(run["scores"]["accuracy"] for run in runs) / 100
    return 100 * math.sqrt(share * (1 - share) / runs[0]["rows"][-1])


def _depth_summary(found: ResultIndex) -> str:
    """Return how often the layers after the first gain more than chance."""
    sentences = []
    for method in DEPTHS:
        every = [_with_layers(found.of(MDDF, data, method)) for data in MDDF.sets]
        run = [runs for runs in every if runs]
        more = [runs for runs in run if statistics.mean(_gains(runs)) > test_error(runs)]
        if run:
            sentences.append(
                f"With {method}, the layers after the first add more than one standard error on "
                f"{len(more)} of {len(run)} data sets."
            )
    return " ".join(sentences) or "The accuracy after each layer was not measured."


# --- margins ---


def _margin_section(found: ResultIndex) -> str:
    lines, fallen, total = [], 0, 0
    for data in MDDF.sets:
        cells = []
        for method in DEPTHS:
            ratios = [_first_and_last(run) for run in found.of(MDDF, data, method)]
            cells += _ratio_cells([each for each in ratios if each])
            for first, last in filter(None, ratios):
                total += 1
                fallen += last < first
        if any(cells):
            lines.append([data.title, *cells])
    head = ["data"]
    for method in DEPTHS:
        head += [f"{method}: first layer", "last layer"]
    sentence = f"It fell from the first to the last kept layer in {fallen} of {total} fits that "
    sentence += "kept more than one."
    return f"""## How the margin ratio moves

The margin of a row is the probability of its class less the largest of the others. mdDF's theory
bounds the error by the ratio of the standard deviation of the margins to their mean: smaller is
better. Here it is that of rows that the layer did not learn from.

{markdown(head, lines)}

{wrapped(sentence)}

Most of the fall is in the second layer. After that the ratio hardly moves, and so does the
accuracy: a ratio that no longer falls is a sign that depth is enough. It compares layers of one
cascade, not two models."""


def _first_and_last(run: Result) -> tuple[float, float] | None:
    """Return the margin ratios of the first and the last kept layer; None with one layer."""
    ratios, n_kept = run["chosen"].get("margin_ratio"), run["chosen"]["layers"]
    if not ratios or n_kept < 2:
        return None
    return ratios[0], ratios[n_kept - 1]


def _ratio_cells(pairs: Sequence[tuple[float, float]]) -> list[str]:
    if not pairs:
        return ["", ""]
    return [f"{statistics.mean(values):.3f}" for values in zip(*pairs, strict=True)]


# --- boosting ---


def _boosting_section(found: ResultIndex) -> str:
    lines = []
    for data in MDDF.sets:
        ours, theirs = found.of(MDDF, data, "default"), found.of(MDDF, data, "LightGBM")
        if ours and theirs:
            title = f"{data.title}, {rows_and_seeds(found, MDDF, data)}"
            accuracies = [
                mean_sd(found.scores(MDDF, data, name)) for name in ("default", "LightGBM")
            ]
            costs = [cpu_cell(ours), cpu_cell(theirs), ratio_cell(theirs, ours)]
            difference = points_cell(ours, theirs)
            lines.append([title, *accuracies, difference, f"{test_error(ours):.2f}", *costs])
    head = ["data, rows, seeds", "default, %", "LightGBM, %", "points more", "standard error"]
    head += ["default: CPU, s", "LightGBM: CPU, s", "times the CPU"]
    return f"""## Where plain boosting is as good, and what it costs

LightGBM with early stopping against the default cascade, which has boosted trees among its
learners.

{markdown(head, lines)}

{wrapped(_boosting_summary(found))}

A rare class (AUC of the fraud tables; gcForest-d is a cascade of MARTs):

{markdown(["data", "MART: AUC", "gcForest-d: AUC", "times the CPU"], _fraud_lines(found))}"""


def _boosting_summary(found: ResultIndex) -> str:
    """Return on how many data sets the default cascade is better, as good, or worse."""
    better, worse, total = 0, 0, 0
    for data in MDDF.sets:
        ours, theirs = found.of(MDDF, data, "default"), found.of(MDDF, data, "LightGBM")
        more = differences(ours, theirs)
        if more:
            total += 1
            better += mean(more) > test_error(ours)
            worse += mean(more) < -test_error(ours)
    return (
        f"The cascade is better by more than one standard error of the test rows on {better} of "
        f"{total} data sets, worse on {worse}; on the others boosting is as good."
    )


def _fraud_lines(found: ResultIndex) -> Iterator[list[str]]:
    for data in FRAUD.sets:
        mart, cascade = found.of(FRAUD, data, "MART"), found.of(FRAUD, data, "gcForest-d")
        if mart and cascade:
            names = ("MART", "gcForest-d")
            scores = [mean_sd(found.scores(FRAUD, data, name, "AUC"), 4) for name in names]
            yield [data.title, *scores, ratio_cell(mart, cascade)]


# --- screening ---


def _screening_section(found: ResultIndex) -> str:
    lines = []
    for data in SCREENING.sets:
        for method in SCREENING.methods_of(data):
            own = found.of(SCREENING, data, method.name)
            peer = found.of(SCREENING, data, without_screening(method.name))
            papers = found.of(SCREENING, data, papers_gcforest(method.name))
            if own and peer:
                cells = [ratio_cell(own, peer), points_cell(own, peer)]
                cells += [ratio_cell(own, papers), points_cell(own, papers)]
                lines.append([data.title, method.name, *cells])
    head = ["data", "gcForest-CS", "equal start: CPU saved", "points more"]
    head += ["the paper's gcForest: CPU saved", "points more"]
    return f"""## What screening saves

gcForest-CS lets confident rows leave after each layer. "Equal start" is a gcForest whose first
layer is the same; the paper compares with one of 500 trees, or with all windows of three sizes.

{markdown(head, lines)}

{wrapped(_screening_summary(found))}

That is less than the rows suggest, for three reasons. The first layer sees all rows, so that even
layers that cost nothing would save no more than the number of layers that gcForest grows. The rows
that leave are the easy ones, which a tree separates with few nodes: a layer of the others needs a
larger part of the nodes than of the rows. And more trees in later layers, as the paper has them,
take back a part of what was saved.

{wrapped(_nodes_summary(found))}

Against a gcForest of 500 trees most of the saving is that of the fewer trees. At prediction a row
passes only the layers that it needs."""


def _nodes_summary(found: ResultIndex) -> str:
    """Return how many nodes the trees of a screened second layer need for their few rows."""
    name = "gcForest-CS, w = 100, per layer"
    for data in SCREENING.sets:
        own = found.of(SCREENING, data, name)
        peer = found.of(SCREENING, data, without_screening(name))
        if own and peer and all(len(_nodes(runs[0])) > 1 for runs in (own, peer)):
            rows = own[0]["chosen"]["rows_in"]
            return (
                f"An example: the random forest of the second layer on {data.title}, seed 0. With "
                f"all {rows[0]:,} rows its trees have {_nodes(peer[0])[1][0]:,.0f} nodes, with the "
                f"{rows[1]:,} that are left {_nodes(own[0])[1][0]:,.0f}."
            )
    return "The numbers of nodes were not measured."


def _nodes(run: Result) -> list[list[float]]:
    """Return the nodes per tree of each learner by layer; empty if they were not counted."""
    nodes: list[list[float]] = run["chosen"].get("nodes_per_tree", [])
    return nodes


def _screening_summary(found: ResultIndex) -> str:
    """Return the most that is saved on each data set without losing accuracy, and the goal."""
    sentences, most = [], 0.0
    for data in SCREENING.sets:
        equal = _savings(found, data, without_screening)
        papers = _savings(found, data, papers_gcforest)
        if equal or papers:
            most = max([most, *equal])
            sentences.append(
                f"on {data.title} {_times(equal)} at an equal start and {_times(papers)} against "
                "the paper's gcForest"
            )
    return (
        f"The most that is saved at no more than {ACCURACY_LOSS:g} points less: "
        f"{'; '.join(sentences) or 'not measured'}. Our goal at an equal start was "
        f"{SAVING_GOAL:g} × ({'reached' if most >= SAVING_GOAL else 'missed'})."
    )


def _savings(found: ResultIndex, data: DataSet, peer_of: Callable[[str], str]) -> list[float]:
    """Return the CPU ratio of each method with screening that loses little accuracy."""
    savings = []
    for method in SCREENING.methods_of(data):
        own = found.of(SCREENING, data, method.name)
        peer = found.of(SCREENING, data, peer_of(method.name))
        if own and peer and mean(differences(own, peer)) >= -ACCURACY_LOSS:
            savings.append(cpu_ratio(own, peer))
    return savings


def _times(savings: Sequence[float]) -> str:
    if not savings:
        return "nothing (all lose more)"
    best = max(savings)
    if best <= 1:
        return f"nothing ({best:.2f} ×)"
    return f"{best:.2f} ×"


# --- composite forests and scanning ---


def _composite_section(found: ResultIndex) -> str:
    lines = []
    for data in RCF.sets:
        names = [method.name for method in RCF.methods if found.of(RCF, data, method.name)]
        if "RCF" in names:
            errors = [mean_sd(rcf_errors(found, data, method.name)) for method in RCF.methods]
            ours, svm = found.of(RCF, data, "RCF"), found.of(RCF, data, "one SVM")
            title = f"{data.title}, {rows_and_seeds(found, RCF, data)}"
            lines.append([title, *errors, ratio_cell(svm, ours)])
    head = ["data, rows, seeds", *[f"{method.name}, error %" for method in RCF.methods]]
    return f"""## Where composite forests pay

Shallow trees with a polynomial SVM in every leaf (RCF), the same with degrees at random (RF+SVM), a
random forest, and one polynomial SVM without trees. Settings are chosen on validation rows.

{markdown([*head, "RCF: times the CPU of one SVM"], lines)}

{wrapped(_composite_summary(found))}

They pay on small tables of numbers where classes are divided by smooth surfaces, which a random
forest cuts into steps. There one tuned SVM is often as good, and much faster. The bound often
chooses no better than the smallest degrees: the report of a composite forest says so if it did
not."""


def _composite_summary(found: ResultIndex) -> str:
    """Return on how many data sets RCF is at least as good as each of the others."""
    run = [data for data in RCF.sets if found.of(RCF, data, "RCF")]
    counts = []
    for peer in ("RF", "RF+SVM", "one SVM"):
        as_good = [data for data in run if _is_as_good(found, data, peer)]
        counts.append(f"{peer} on {len(as_good)}")
    return f"Of {len(run)} data sets, RCF's mean error is at most that of {', '.join(counts)}."


def _is_as_good(found: ResultIndex, data: DataSet, peer: str) -> bool:
    theirs = rcf_errors(found, data, peer)
    return bool(theirs) and mean(rcf_errors(found, data, "RCF")) <= mean(theirs)


def _scanning_section(found: ResultIndex) -> str:
    lines = []
    for data in SCANNING.sets:
        plain = found.of(SCANNING, data, "without scanning")
        for method in SCANNING.methods_of(data):
            own = found.of(SCANNING, data, method.name)
            if own and plain and own != plain:
                accuracy = mean_sd(found.scores(SCANNING, data, method.name))
                cells = [accuracy, points_cell(own, plain), ratio_cell(plain, own)]
                lines.append([f"{data.title}", method.name, *cells])
    head = ["data", "scan", "accuracy, %", "points more", "times the CPU"]
    return f"""## Where scanning pays

The default cascade on the class vectors of windows, against the same on the pixels.

{markdown(head, lines)}

Scanning helps where a class is a local pattern that may move, and rows are enough to learn windows
from. With few images of many classes (the faces of ORL) the windows know less than the whole image.
A sample of the windows costs a part of all of them, and loses a part of the gain."""
