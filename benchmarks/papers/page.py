"""Write ``docs/results.md``: the papers' figures beside ours.

- ``write_page``  the whole page from results
- ``page_text``   the same as text
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from .._figures import ROOT, write_whole
from .cells import (
    ResultIndex,
    cost_lines,
    cpu_cell,
    cpu_ratio,
    differences,
    markdown,
    mean,
    mean_sd,
    megabytes_cell,
    plain_cell,
    points_cell,
    ratio_cell,
    remarks,
    rows_and_seeds,
    rows_by_layer,
    wrapped,
)
from .data import PAPER_FRAUD_SHARE, PAYMENTS
from .results import Result
from .tables import (
    FRAUD,
    FRAUD_METRICS,
    MDDF,
    MDDF_NOT_HERE,
    NOT_HERE,
    RCF,
    SCANNING,
    SCREENING,
    STARTING_TREES,
    TABLES,
    WAYS,
    DataSet,
)

PAGE = ROOT / "docs" / "results.md"
SAVING_GOAL = 3.0
ACCURACY_LOSS = 0.3
PAPER_TEST_ROWS, PAPER_TEST_FRAUDS = 52_489_529, 66_221


def write_page(results: Iterable[Result], file: Path = PAGE) -> None:
    """Write the page from results."""
    write_whole(file, page_text(results))


def page_text(results: Iterable[Result]) -> str:
    """Return the page; what has no result is shown as not run."""
    found = ResultIndex(results)
    sections = (
        _introduction(found),
        _mddf_section(found),
        _rcf_section(found),
        _screening_section(found),
        _fraud_section(found),
        _scanning_section(found),
        _not_here_section(),
    )
    return "\n\n".join(sections) + "\n"


# --- the sections ---


def _introduction(found: ResultIndex) -> str:
    versions = [f"{name} {version(name)}" for name in ("scikit-learn", "lightgbm")]
    return f"""# The papers' tables, measured here

`make paper-tables` measures every table below and writes this page; `make paper-tables TABLE=rcf`
measures one of `mddf`, `rcf`, `cs`, `fraud` and `scanning`. A run that was stopped continues where
it was. The data sets are read from `$SYLVA_DATA`, else from `../shared/data`. All figures come from
`benchmarks/papers/results.json`.

- **Our figures** are the mean ± standard deviation over the seeds, on test rows. A seed draws the
  split as well, unless the data set has a standard split: then all seeds share the test rows, and
  the standard deviation does not contain their chance.
- **The papers' figures** are in the lines or columns named after the paper.
- **Settings** are chosen on training or validation rows only; each section says which.
- **CPU** is the time of the fit on one thread, with what was spent on choosing settings. **Memory**
  is the peak of the process during the fit, libraries (about 300 MB) and data included.
- Peers: {" and ".join(versions)}. Tree methods see categories as codes;
  MLP, logistic regression and SVM see them one-hot, and numbers standardised.
{wrapped("- " + _total_cost(found))}"""


def _total_cost(found: ResultIndex) -> str:
    """Return how many fits there are, what they took, and the library that was measured."""
    hours = []
    for table in TABLES.values():
        runs = found.all_of(table)
        cpu = sum(run["cpu"] + run["predict_cpu"] for run in runs) / 3600
        hours.append(f"{table.name} {len(runs)} fits, {cpu:.1f} h")
    sources = ", ".join(f"`{digest}`" for digest in found.sources())
    return (
        f"CPU of all fits: {'; '.join(hours)}. A hash of the sources of `deepforest` is saved with "
        f"each result; here: {sources or 'none'}."
    )


def _mddf_section(found: ResultIndex) -> str:
    methods = [method.name for method in MDDF.methods]
    accuracy = []
    for data in MDDF.sets:
        ours = [mean_sd(found.scores(MDDF, data, method)) for method in methods]
        paper = [plain_cell(data.paper.get(method)) for method in methods]
        accuracy.append([f"{data.title}, {rows_and_seeds(found, MDDF, data)}", "ours", *ours])
        accuracy.append(["", "paper", *paper])
    for name, figures in MDDF_NOT_HERE.items():
        paper = [plain_cell(figures.get(method)) for method in methods]
        accuracy.append([f"{name}: not here", "paper", *paper])
    return f"""## mdDF (Lyu, Yang and Zhou, NeurIPS 2019, table 1)

Test accuracy in percent. SF, ST and NP are the paper's variants of mdDF: same forests, stacking, no
predictions. The paper's boosting is XGBoost, ours LightGBM. Our cascades choose their depth on rows
that no layer has seen; "per layer" is the paper's way instead: new folds in every layer. `default`
is the library's default cascade, which the paper does not have.

{markdown(["data, rows, seeds", "", *methods], accuracy)}

{_mddf_summary(found)}

CPU seconds and memory of a fit:

{markdown(["data", "", *methods], cost_lines(found, MDDF, methods))}

Settings. MLP: the paper's five architectures, the best on a fifth of the training rows, then fitted
on all of them; Adam with early stopping instead of Adadelta. RF: 2,000 trees, as in the paper, else
defaults. LightGBM: the number of trees, at most 2,000, by early stopping on a fifth of the training
rows, then fitted on all of them; the paper has 2,000 trees of XGBoost. gcForest: 2 + 2 forests of
100 trees, 5 folds, as in the paper. mdDF and its variants: the presets; γ, μ and the depth step
are chosen among the paper's values by trials on training rows.

{remarks(MDDF)}"""


def _mddf_summary(found: ResultIndex) -> str:
    """Return how mdDF compares with the paper and with boosting, data set by data set."""
    lines: list[str] = []
    for data in MDDF.sets:
        lines += map(wrapped, _mddf_comparison(found, data))
    return "\n".join(lines) or "mdDF was not run."


def _mddf_comparison(found: ResultIndex, data: DataSet) -> list[str]:
    """Return one line of differences in points; nothing without results."""
    accuracy = {
        method.name: statistics.mean(found.scores(MDDF, data, method.name))
        for method in MDDF.methods
        if found.of(MDDF, data, method.name)
    }
    if not {"mdDF", "gcForest", "LightGBM", "default"} <= accuracy.keys():
        return []
    share = accuracy["mdDF"] / 100
    error = 100 * math.sqrt(share * (1 - share) / found.of(MDDF, data, "mdDF")[0]["rows"][-1])
    of_paper = f"less the paper's {accuracy['mdDF'] - data.paper['mdDF']:+.2f}, "
    if not data.is_papers_data:
        of_paper = ""
    return [
        f"- {data.title}: mdDF {of_paper}less our gcForest "
        f"{accuracy['mdDF'] - accuracy['gcForest']:+.2f}; default less LightGBM "
        f"{accuracy['default'] - accuracy['LightGBM']:+.2f} (standard error of the test rows: "
        f"{error:.2f})."
    ]


def _rcf_section(found: ResultIndex) -> str:
    methods = [method.name for method in RCF.methods]
    lines = []
    for data in RCF.sets:
        line = [f"{data.title}, {rows_and_seeds(found, RCF, data)}"]
        for method in methods:
            if method in data.paper:
                line.append(f"{data.paper[method]:g} ± {data.paper_sd[method]:g}")
            line.append(mean_sd(rcf_errors(found, data, method)))
        line.append(f"{data.paper['RCF'] - data.paper['RF']:+.2f}")
        line.append(mean_sd(rcf_less_rf(found, data), signed=True))
        lines.append(line)
    head = ["data, rows, seeds"]
    for method in methods:
        if method != "one SVM":
            head.append(f"{method}, paper")
        head.append(f"{method}, ours")
    head += ["RCF − RF, paper", "RCF − RF, ours"]
    return f"""## Random Composite Forests (DeSalvo and Mohri, AAAI 2016, table 1)

Test error in percent. The paper's data are LIBSVM's training files (usps: its test file), divided
at random into training, validation and test rows, five times; it does not say in which shares.
Here: 60, 20 and 20 %. The paper's random forest is much worse on iris and australian than ours, so
RCF − RF (ours: the difference of each split) is beside the levels. The column of one polynomial
SVM, without trees, is not in the paper.

{markdown(head, lines)}

{wrapped(_rcf_summary(found))}

CPU seconds and memory of a fit:

{markdown(["data", "", *methods], cost_lines(found, RCF, methods))}

Settings, each chosen by the error on the validation rows of the split; the model is not fitted
again on them. RF: scikit-learn's, 500 trees; columns per split from 1, √F/2, √F, 2√F, F. RCF and
RF+SVM: 100 trees; depth from 2, 3, 5 and columns per split as for RF, by trials with 20 trees; γ
from 0.00001 to 0.01; C by cross-validation on the training rows. The paper's grid is larger: depths
2 to 8, 100 to 900 trees. One SVM: degree from 1 to 9 and C from 0.001 to 100."""


def _rcf_summary(found: ResultIndex) -> str:
    """Return on how many data sets RCF reaches the paper, and on how many it beats RF."""
    run = [data for data in RCF.sets if found.of(RCF, data, "RCF")]
    if not run:
        return "RCF was not run."
    errors = {data.title: statistics.mean(rcf_errors(found, data, "RCF")) for data in run}
    as_paper = [
        data for data in run if errors[data.title] <= data.paper["RCF"] + data.paper_sd["RCF"]
    ]
    below = [data for data in run if statistics.mean(rcf_less_rf(found, data)) <= 0]
    svm = [data for data in run if mean(rcf_errors(found, data, "one SVM")) <= errors[data.title]]
    return (
        f"RCF's error is at most the paper's plus its standard deviation on {len(as_paper)} of "
        f"{len(run)} data sets, and at most that of RF on {len(below)}. One SVM is at least as "
        f"good as RCF on {len(svm)}."
    )


def rcf_errors(found: ResultIndex, data: DataSet, method: str) -> list[float]:
    return [100 - accuracy for accuracy in found.scores(RCF, data, method)]


def rcf_less_rf(found: ResultIndex, data: DataSet) -> list[float]:
    """Return the difference of the errors of each split that both methods have."""
    return differences(found.of(RCF, data, "RF"), found.of(RCF, data, "RCF"))


def _screening_section(found: ResultIndex) -> str:
    lines = []
    for data in SCREENING.sets:
        for method in SCREENING.methods_of(data):
            own = found.of(SCREENING, data, method.name)
            peer = found.of(SCREENING, data, without_screening(method.name))
            papers_peer = found.of(SCREENING, data, papers_gcforest(method.name))
            lines.append(
                [
                    f"{data.title}, {rows_and_seeds(found, SCREENING, data)}",
                    method.name,
                    mean_sd(found.scores(SCREENING, data, method.name)),
                    cpu_cell(own),
                    megabytes_cell(own),
                    ratio_cell(own, peer),
                    points_cell(own, peer),
                    ratio_cell(own, papers_peer),
                    points_cell(own, papers_peer),
                    rows_by_layer(own),
                ]
            )
    head = ["data, rows, seeds", "method", "accuracy, %", "CPU, s", "memory, MB"]
    head += ["equal start: CPU saved", "points more", "the paper's gcForest: CPU saved"]
    head += ["points more", "layers of seed 0, and rows in each"]
    return f"""## gcForest-CS (Pang, Ting, Zhao and Zhou, ICDM 2018, section V)

The text of the paper that we have ends before its result tables, so its figures are missing here.
What it claims: the accuracy of gcForest at a fraction of time and memory. "CPU saved" is the CPU of
gcForest divided by that of gcForest-CS, and the points are the difference of their accuracies. At
an equal start gcForest has the trees and windows that gcForest-CS starts with; the paper's gcForest
has 500 trees or, with scanning, all windows of three sizes. Both see all rows in the first layer;
at an equal start screening can save at most a factor of the number of layers that gcForest grows,
and it grows one layer more than it keeps.

{markdown(head, lines)}

{wrapped(_screening_summary(found))}

Settings, as in the paper: without scanning 1 + 1 forests, 3 folds, w = 20, 50 or 100 trees in the
first layer, gcForest also with 500; a = 1/10 or 1/3 by the accuracy of the first layer. With
scanning 4 + 4 forests of 100 trees, 3 folds, a = 1/20; small windows are a sixteenth of the pixels,
and growth is that of "per layer". "Per layer" is the papers' way: new folds in
every layer, growth by accuracy; "nested" scores layers on rows that none of them has seen. Later
layers of gcForest-CS have at most half as many trees more than the first (`tree_growth=0.5`), with
"no more trees" as many, and with "the paper's trees" so many that trees times rows stay equal."""


def _screening_summary(found: ResultIndex) -> str:
    """Return the most that screening saves on each data set without losing accuracy."""
    sentences = []
    for data in SCREENING.sets:
        savings = dict(_savings(found, data))
        if not savings:
            continue
        method = max(savings, key=lambda name: savings[name])
        sentences.append(
            f"On {data.title} screening saves most with {method}: {savings[method]:.2f} ×"
            f" ({'reached' if savings[method] >= SAVING_GOAL else 'missed'})."
        )
    goal = (
        f"Our goal is {SAVING_GOAL:g} × less CPU at an equal start and no more than "
        f"{ACCURACY_LOSS:g} points less."
    )
    return " ".join([goal, *sentences])


def _savings(found: ResultIndex, data: DataSet) -> Iterator[tuple[str, float]]:
    """Yield the CPU ratio of each method with screening that loses little accuracy."""
    for method in SCREENING.methods_of(data):
        own = found.of(SCREENING, data, method.name)
        peer = found.of(SCREENING, data, without_screening(method.name))
        if own and peer and mean(differences(own, peer)) >= -ACCURACY_LOSS:
            yield method.name, cpu_ratio(own, peer)


def without_screening(name: str) -> str:
    """Return the method that gcForest-CS is compared with; an unknown name for others."""
    for trees in STARTING_TREES:
        for way in WAYS:
            if name.startswith(f"gcForest-CS, w = {trees}, {way}"):
                return f"gcForest, {trees} trees, {way}"
    if name == "gcForest-CS, a tenth of the small windows":
        return "gcForest, a tenth of the small windows"
    return ""


def papers_gcforest(name: str) -> str:
    """Return the gcForest that the paper compares gcForest-CS with; an unknown name for others."""
    for way in WAYS:
        if name.startswith("gcForest-CS, w") and way in name:
            return f"gcForest, 500 trees, {way}"
    if name == "gcForest-CS, a tenth of the small windows":
        return "gcForest, all windows of three sizes"
    return ""


def _fraud_section(found: ResultIndex) -> str:
    tables = []
    for data in FRAUD.sets:
        lines = []
        for method in FRAUD.methods:
            runs = found.of(FRAUD, data, method.name)
            ours = [
                mean_sd(found.scores(FRAUD, data, method.name, metric), digits=4)
                for metric in FRAUD_METRICS
            ]
            paper = [f"{data.paper[method.name][metric]:.4f}" for metric in FRAUD_METRICS]
            lines.append([method.name, "ours", *ours, cpu_cell(runs), megabytes_cell(runs)])
            lines.append(["", "paper's data", *paper, "", ""])
        runs = found.any_of(FRAUD, data)
        if runs:
            lines.append(["", "at most", "", "", "", *_recall_limits(runs), "", ""])
        title = f"{data.title}: {rows_and_seeds(found, FRAUD, data)}"
        if runs:
            frauds = mean_sd([run["scores"]["frauds"] for run in runs], 0)
            title += f", {frauds} frauds in the test rows"
        head = ["method", "", *FRAUD_METRICS, "CPU, s", "memory, MB"]
        tables.append(f"{title}\n\n{markdown(head, lines)}")
    paper_limit = PAPER_TEST_ROWS * 1e-4 / PAPER_TEST_FRAUDS
    return f"""## Fraud (Zhang et al., ACM TIST 2019, tables 2 to 5)

The paper's data were never published, so its levels and ours are of different data; what can be
compared is the order of the methods. "Generated payments" is the sample `fraud` of the studio with
{PAYMENTS:,} rows and the paper's share of fraud, {100 * PAPER_FRAUD_SHARE:.3f} %; the test rows are
the latest 28.6 %, as the paper tests on later months. KDD99: attacks R2L and U2R against the rest,
distinct rows of the training file, equal features in the same part.

{(chr(10) * 2).join(tables)}

"At most" is the recall if every checked row were fraud: with more frauds than checked rows it is
below 1. By the counts in the paper's own table 1 ({PAPER_TEST_FRAUDS:,} frauds among
{PAPER_TEST_ROWS:,} test rows) the recall at 1/10,000 cannot be above {paper_limit:.3f}, but its
tables 3 and 5 show 0.32 to 0.49. Its rates seem to refer to more rows than the test rows; the paper
does not say which.

Settings. A tenth of the training rows are validation rows: the models do not learn them. F1 has
the threshold that is best on them. The weight of fraud (1, √ratio or the ratio of the classes) is
chosen by their AUC, for cascades by a MART of 100 trees; so are C of LR (0.01, 1), the layers of
the MLP (100; 300 and 100) and the learning rate of MART (0.03, 0.1; 600 trees, as in the paper).
These trials learn at most 200,000 rows. gcForest-d and gcForest-t are the presets `mart_cascade`
and `mart_cascade_tuned`: four MARTs of about 50 and about 200 trees in each layer."""


def _recall_limits(runs: Sequence[Result]) -> list[str]:
    """Return the highest possible recall at each of the three rates."""
    n_test = runs[0]["rows"][-1]
    frauds = statistics.mean(run["scores"]["frauds"] for run in runs)
    return [f"{min(1, rate * n_test / frauds):.4f}" for rate in (1e-4, 1e-3, 1e-2)]


def _scanning_section(found: ResultIndex) -> str:
    lines = []
    for data in SCANNING.sets:
        for method in SCANNING.methods_of(data):
            own = found.of(SCANNING, data, method.name)
            plain = found.of(SCANNING, data, "without scanning")
            if method.name == "without scanning":
                plain = []
            lines.append(
                [
                    f"{data.title}, {rows_and_seeds(found, SCANNING, data)}",
                    method.name,
                    mean_sd(found.scores(SCANNING, data, method.name)),
                    points_cell(own, plain),
                    cpu_cell(own),
                    megabytes_cell(own),
                ]
            )
    head = ["data, rows, seeds", "method", "accuracy, %", "points more", "CPU, s", "memory, MB"]
    return f"""## Multi-grained scanning (Zhou and Feng, IJCAI 2017; Pang et al.)

The default cascade on the pixels, and on the class vectors of windows: three sizes, a sixteenth, an
eighth and a quarter of the pixels. The text we have of these papers has no figures for these data.
Nothing is chosen on test rows: all settings are defaults; the number of windows is in the table.

{markdown(head, lines)}"""


def _not_here_section() -> str:
    lines = [f"- {name} ({paper})" for name, paper in NOT_HERE.items()]
    return "## Data sets of the papers that are not here\n\n" + "\n".join(lines)
