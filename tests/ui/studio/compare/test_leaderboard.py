"""Evaluations of many runs on one board."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.run_state import NodeState, RunState
from engine.store import Artifact
from engine.values import Report
from tests.run_events import append_stored
from tests.ui.studio.compare.lab import judged_run, pipeline
from tests.ui.studio.runs.lab import DONE
from ui.studio.compare.leaderboard import (
    EvaluationFigures,
    Evaluations,
    Line,
    board_rows,
    first_measure,
    folded,
    groups_of,
    inspectable_node,
    measure_title,
    measures_of,
    names_of,
    ranked,
)
from ui.studio.screen_text import time_of_day
from ui.studio.session import Studio


def evaluation(
    title: str = "MART", *, positive: str | None = None, rows: int = 10, **measures: Any
) -> Report:
    counts = [{"class": "no", "rows": rows - 2}, {"class": "yes", "rows": 2}]
    data = {"classes": ["no", "yes"], "positive": positive}
    return Report(
        "evaluation", title, {**measures, "positive": positive, "rows": rows}, counts, data
    )


def line(
    run: str = "20260101-120000-aaaa", node: str = "evaluate", title: str = "MART", **about: Any
) -> Line:
    return Line(
        run,
        "Pipe",
        0.0,
        node,
        title,
        "MART",
        EvaluationFigures.of(evaluation(title, **about)),
        Artifact("report", run + node, {}),
    )


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("auc", ["b", "a", "c"]), ("log_loss", ["a", "b", "c"]), ("ks", ["a", "b", "c"])],
)
def test_the_best_come_first_and_those_without_a_value_last(
    measure: str, expected: list[str]
) -> None:
    lines = [
        line(node="a", auc=0.7, log_loss=0.2, ks=None),
        line(node="b", auc=0.9, log_loss=0.4),
        line(node="c"),
    ]
    assert [each.node for each in ranked(lines, measure)] == expected


def test_f1_at_a_threshold_of_the_evaluated_rows_is_called_optimistic() -> None:
    best = line(f1=0.8, threshold=0.3, threshold_rule="best F1 (optimistic)")
    chosen = line(f1=0.7, threshold=0.4)
    assert measure_title([best, best], "f1") == "Best F1 (optimistic)"
    assert measure_title([best, chosen], "f1") == "F1 (partly optimistic)"


@pytest.mark.parametrize(
    ("thresholds", "title"),
    [((0.3, 0.5), "F1 at threshold"), ((None, None), "Mean F1"), ((0.3, None), "F1")],
)
def test_f1_is_called_by_what_the_lines_go_by(
    thresholds: tuple[float | None, ...], title: str
) -> None:
    lines = [line(f1=0.9, threshold=threshold) for threshold in thresholds]
    assert measure_title(lines, "f1") == title
    assert measure_title(lines, "auc") == "AUC"


def test_only_measures_that_someone_has_are_offered() -> None:
    lines = [line(accuracy=0.5, auc=None), line(log_loss=0.1, threshold=0.5)]
    assert measures_of(lines) == ["accuracy", "log_loss"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([line(accuracy=0.5, auc=0.6)], "accuracy"),
        ([line(accuracy=0.5, auc=0.6), line(positive="yes", accuracy=0.5, auc=0.6)], "auc"),
        ([line(log_loss=0.5)], "log_loss"),
        ([line(positive="yes", accuracy=0.5)], "accuracy"),
    ],
)
def test_the_first_ranking_is_by_the_telling_measure(lines: list[Line], expected: str) -> None:
    assert first_measure(lines) == expected


@pytest.mark.parametrize(
    ("other", "same"),
    [({"auc": 0.1}, True), ({"rows": 11}, False), ({"positive": "yes"}, False)],
)
def test_lines_of_the_same_rows_and_question_share_a_letter(
    other: dict[str, Any], same: bool
) -> None:
    first, second = line(node="a", auc=0.9), line(node="b", **other)
    groups = groups_of([first, second])
    assert groups[0].title == "A: 10 test rows, 2 classes"
    letters = [(group.letter, group.lines) for group in groups]
    assert letters == ([("A", [first, second])] if same else [("A", [first]), ("B", [second])])


@pytest.mark.parametrize(
    ("kinds", "title"),
    [
        (("validation rows", "validation rows"), "A: 10 validation rows, 2 classes"),
        (("validation rows", "test rows"), "A: 10 rows, 2 classes"),
    ],
)
def test_the_title_says_which_part_the_rows_are(kinds: tuple[str, ...], title: str) -> None:
    lines = [replace(line(node=str(index)), rows=kind) for index, kind in enumerate(kinds)]
    assert groups_of(lines)[0].title == title


def test_as_many_rows_of_other_classes_are_other_data() -> None:
    counts = [{"class": "no", "rows": 5}, {"class": "yes", "rows": 5}]
    even = Report(
        "evaluation", "E", {"rows": 10}, counts, {"classes": ["no", "yes"], "positive": None}
    )
    assert not EvaluationFigures.of(even).has_rows_of(EvaluationFigures.of(evaluation()))


def test_letters_go_on_after_the_alphabet() -> None:
    lines = [line(node=f"n{rows}", rows=rows) for rows in range(3, 31)]
    assert [group.letter for group in groups_of(lines)][24:] == ["Y", "Z", "AA", "AB"]


def identified(line: Line, **columns: str) -> Line:
    rows = {"classes": "same", "columns": columns}
    return replace(line, evaluation=replace(line.evaluation, test_rows=rows))


def test_as_many_rows_with_other_values_are_other_rows() -> None:
    first = identified(line(node="a"), age="1", height="2")
    fewer_columns = identified(line(node="b"), age="1")
    other = identified(line(node="c"), age="9")
    groups = groups_of([first, fewer_columns, other])
    assert [group.lines for group in groups] == [[first, fewer_columns], [other]]


def test_letters_stay_when_newer_runs_are_added_or_lines_are_in_another_order() -> None:
    old, new = replace(line(rows=5), started=1.0), replace(line(rows=6, node="b"), started=2.0)
    newest = replace(line(rows=7, node="c"), started=3.0)
    assert [group.letter for group in groups_of([new, old])] == ["A", "B"]
    letters = {
        group.lines[0].evaluation.rows: group.letter for group in groups_of([newest, new, old])
    }
    assert letters == {5: "A", 6: "B", 7: "C"}


def test_repeats_of_a_result_are_one_line_of_the_newest_run() -> None:
    result = Artifact("predictions", "same", {})
    lines = [
        replace(line(run, "e", "MART", auc=0.9), started=at, predictions=result)
        for run, at in (("one", 1.0), ("two", 3.0), ("three", 2.0))
    ]
    (kept,) = folded(lines)
    assert kept.run == "two" and [each.run for each in kept.repeats] == ["three", "one"]
    relabelled = replace(lines[0], name="Baseline")
    other = replace(lines[1], predictions=Artifact("predictions", "other", {}))
    elsewhere = replace(lines[2], evaluation=line(accuracy=0.4).evaluation)
    assert len(folded([*lines, relabelled, other, elsewhere])) == 4


def test_names_tell_lines_apart_with_as_few_words_as_will_do() -> None:
    lines = [
        line("a", "e1", "MART"),
        line("a", "e2", "Forest"),
        replace(line("b", "e1", "Forest"), pipeline="Other"),
        line("b", "e1", "Twice"),
        line("b", "e2", "Twice"),
        line("a", "e1", "Again"),
        replace(line("b", "e1", "Again"), started=3600.0),
    ]
    assert names_of(lines) == [
        "MART",
        "Forest · Pipe",
        "Forest · Other",
        "Twice",
        "Twice (2)",
        f"Again · {time_of_day(0.0)}",
        f"Again · {time_of_day(3600.0)}",
    ]


def test_names_are_unique_also_if_a_label_ends_in_a_number() -> None:
    lines = [line("a", f"e{number}", title) for number, title in enumerate(("X", "X", "X (2)"))]
    assert names_of(lines) == ["X", "X (3)", "X (2)"]


def test_a_failed_run_is_not_counted_as_a_repeat_and_stands_for_a_result_only_alone() -> None:
    result = Artifact("predictions", "same", {})
    one, two, failed = (
        replace(line(run, "e", auc=0.9), started=at, predictions=result)
        for run, at in (("one", 1.0), ("two", 2.0), ("failed", 3.0))
    )
    failed = replace(failed, failed=True)
    (kept,) = folded([one, two, failed])
    assert kept.run == "two" and [each.run for each in kept.repeats] == ["one"]
    assert folded([failed]) == [failed]


def test_a_line_knows_whether_its_run_failed(studio: Studio) -> None:
    done = judged_run(studio, pipeline(one="mart"), evaluate_one=evaluation(auc=0.9))
    failed = judged_run(studio, pipeline(one="mart"), evaluate_one=evaluation(auc=0.9))
    with studio.runs.log() as log:
        append_stored(log, failed, "run-finished", state="failed")
        lines = Evaluations(studio.runs).lines(log.runs())
    assert {each.run: each.failed for each in lines} == {done: False, failed: True}


def test_the_board_has_every_measure_in_every_row() -> None:
    lines = [line(node="a", auc=0.75), line(node="b", accuracy=0.5)]
    rows = board_rows(lines, "A: 10 rows")
    assert [(row["rank"], row["node"], row["auc"], row["accuracy"]) for row in rows] == [
        (1, "a", 0.75, None),
        (2, "b", None, 0.5),
    ]


def test_runs_of_one_pipeline_are_told_apart_by_when_they_began_and_by_their_preset(
    studio: Studio,
) -> None:
    plain, preset = pipeline(one="deep-forest"), pipeline(one="deep-forest")
    node = plain.nodes["one"].model_copy(update={"params": {"preset": "mddf"}})
    preset = preset.model_copy(update={"nodes": {**preset.nodes, "one": node}})
    for document in (plain, preset):
        judged_run(studio, document, evaluate_one=evaluation(auc=0.9))
    with studio.runs.log() as log:
        lines = Evaluations(studio.runs).lines(log.runs())
    assert len({each.model for each in lines}) == 2
    assert all("mddf" not in each.model and "Deep forest" in each.model for each in lines)


def test_an_odd_report_is_taken_as_it_is() -> None:
    odd = Report(
        "evaluation", "x" * 500 + "\x1b[2J", {"auc": "high", "accuracy": True, "rows": None}
    )
    judged = EvaluationFigures.of(odd)
    assert judged.measures == {} and judged.rows == 0 and judged.classes == ()
    assert len(judged.title) < 70 and "\x1b" not in judged.title


@pytest.mark.parametrize(
    "odd",
    [
        Report("evaluation", "Odd", {"rows": "many"}),
        Report("evaluation", "Odd", {}, data={"classes": 5}),
        Report("evaluation", "Odd", {}, [{"class": "no", "rows": "q"}]),
        Report("evaluation", "Odd", {}, ["no"]),  # type: ignore[list-item]
    ],
)
def test_a_report_with_parts_of_another_type_is_damaged_and_the_others_are_listed(
    studio: Studio, odd: Report
) -> None:
    document = pipeline(one="mart", two="mart")
    judged_run(studio, document, evaluate_one=odd, evaluate_two=evaluation(auc=0.9))
    with studio.runs.log() as log:
        lines = Evaluations(studio.runs).lines(log.runs())
    assert [each.node for each in lines] == ["evaluate_two"]


@pytest.mark.parametrize(
    ("model", "ready", "expected"),
    [
        ("forest", ("forest", "mart"), "forest"),
        ("mart", ("forest", "mart"), "forest"),
        ("mart", ("mart",), None),
    ],
)
def test_a_deep_forest_that_is_trained_can_be_inspected(
    model: str, ready: tuple[str, ...], expected: str
) -> None:
    document = pipeline(forest="deep-forest", mart="mart")
    outputs = {"model": {"type": "model", "digest": "d", "files": {}}}
    state = RunState(
        "r", "n", 0.0, nodes={name: NodeState("done", outputs=outputs) for name in ready}
    )
    assert inspectable_node(document, state, model) == expected


def test_every_evaluation_of_a_run_is_a_line_and_nothing_else(studio: Studio) -> None:
    document = pipeline(one="mart", two="random-forest")
    reports = {
        "evaluate_one": evaluation("First", auc=0.5),
        "evaluate_two": evaluation("Second", auc=0.75),
        "split": Report("comparison", "C", {}),
    }
    judged_run(studio, document, **reports)
    evaluations = Evaluations(studio.runs)
    with studio.runs.log() as log:
        lines = evaluations.lines(log.runs())
    assert [(each.evaluation.title, each.model, each.evaluation.measures) for each in lines] == [
        ("First", "MART", {"auc": 0.5}),
        ("Second", "Random forest", {"auc": 0.75}),
    ]


def test_a_damaged_evaluation_is_left_out(studio: Studio) -> None:
    judged_run(studio, pipeline(one="mart"), evaluate_one=evaluation(auc=0.5))
    for path in studio.workspace.objects.rglob("*.json"):
        path.write_text("{")
    with studio.runs.log() as log:
        assert Evaluations(studio.runs).lines(log.runs()) == []


def test_reports_are_read_once_however_many_runs_have_them(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = pipeline(one="mart")
    for number in range(20):
        judged_run(studio, document, evaluate_one=evaluation(auc=number % 5 / 5))
    evaluations = Evaluations(studio.runs)
    opened = []
    plain_open = type(studio.store).open
    monkeypatch.setattr(
        type(studio.store),
        "open",
        lambda store, output: opened.append(output.digest) or plain_open(store, output),
    )
    with studio.runs.log() as log:
        first = evaluations.lines(log.runs())
        assert len(first) == 20
        assert len(opened) == 5
        assert evaluations.lines(log.runs()) == first
        assert len(opened) == 5


def test_a_run_that_went_on_is_read_again(studio: Studio) -> None:
    document = pipeline(one="mart", two="mart")
    run = judged_run(studio, document, evaluate_one=evaluation("First"))
    evaluations = Evaluations(studio.runs)
    with studio.runs.log() as log:
        assert [each.evaluation.title for each in evaluations.lines(log.runs())] == ["First"]
        output = studio.store.put("report", evaluation("Second")).to_dict()
        append_stored(
            log, run, "finished", "evaluate_two", **{**DONE, "outputs": {"report": output}}
        )
        assert [each.evaluation.title for each in evaluations.lines(log.runs())] == [
            "First",
            "Second",
        ]
