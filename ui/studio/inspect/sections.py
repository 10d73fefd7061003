"""The parts of the Inspect page, each drawn when its tab is open.

- ``draw_growth``, ``draw_margins``, ``draw_learners``, ``draw_screening``  need the records of layers only
- ``draw_maps``, ``draw_row``  need an inspection
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from deepforest.metrics import lower_is_better, metric_title
from engine.text import counted
from nodes.inspection.layers import UNKNOWN, Layers
from ui.studio import plots
from ui.studio.inspect import tables
from ui.studio.inspect.forest_source import Subject, screened
from ui.studio.inspect.maps import Marks, marks, row_maps, some
from ui.studio.markdown import plain
from ui.studio.plots.layers import HELD_OUT, TABLE
from ui.studio.widgets import download_csv, grid, picture, short_texts, side_by_side

COLOURINGS = {"class": "Class", "mistake": "Mistakes", "margin": "Margin"}
MAX_LISTED = 50
MAX_OVERLAID = 6
TABS = "tab"
"""Key of the open tab, and its name in the address of the page."""
ROW_TAB = "One row"
USUAL_SHARE = 0.1
WHOSE_ROWS = f"{HELD_OUT}: training rows, each evaluated by fits that did not see it."
MARGIN = (
    "The margin of a row is the score of its true class minus the best other score: below 0 is wrong, 1 is certain."
)
RATIO = "The spread of the margins divided by their mean. It should fall from layer to layer."
SEPARATION = (
    "Spread of the rows within their classes divided by the spread between classes: smaller is better separated."
)

Layer = Mapping[str, Any]


# Growth


def draw_growth(subject: Subject) -> None:
    """Draw score, margins and margin ratio by layer, and whether each layer was kept."""
    records, stages, title = subject.records, subject.stages, metric_title(subject.metric)
    better = "lower" if lower_is_better(subject.metric) else "higher"
    side_by_side(
        [
            (plots.growth(records, subject.metric, title, stages), "growth",
             f"The score after each layer: {better} is better. A layer without gain is dropped. {WHOSE_ROWS}"),
            (_ratio_plot(subject, title), "margin-ratio",
             "Margin ratio: the spread of the margins divided by their mean. Good: it falls while the score improves."),
        ]
    )  # fmt: skip
    left, right = st.columns(2)
    with left:
        words = f"{MARGIN} Good: the mean rises and the bars get shorter."
        picture(plots.margin_growth(records, stages), "margins-by-layer", words)
    with right:
        _draw_layer_table(subject, title)


def _ratio_plot(subject: Subject, title: str) -> Any:
    scored = [(stage, stage["scores"][subject.metric]) for stage in subject.stages if _has(stage, subject.metric)]
    if scored:
        return plots.ratio_and_score([stage for stage, _ in scored], [score for _, score in scored], title, TABLE)
    return plots.ratio_and_score(subject.records, [record["score"] for record in subject.records], title, HELD_OUT)


def _has(stage: Layer, metric: str) -> bool:
    return (stage["scores"] or {}).get(metric) is not None


def _draw_layer_table(subject: Subject, title: str) -> None:
    rows = tables.growth_rows(subject.records, subject.stages, subject.metric)
    number = st.column_config.NumberColumn(format="%.4f")
    config: dict[str, Any] = {name: number for name in rows[0] if name not in ("layer", "kept", "why")}
    config["score"] = st.column_config.NumberColumn(f"{plain(title)}, held out", format="%.4f")
    config["table score"] = st.column_config.NumberColumn(f"{plain(title)}, table", format="%.4f")
    for where in ("", "table "):
        config[f"{where}margin ratio"] = st.column_config.NumberColumn(format="%.4f", help=RATIO)
    config["S_A/S_E of the map"] = st.column_config.NumberColumn(format="%.4f", help=f"{SEPARATION} As t-SNE draws it.")
    config["S_A/S_E"] = st.column_config.NumberColumn(format="%.4f", help=f"{SEPARATION} Of the class vectors.")
    config["why"] = st.column_config.TextColumn(width="large")
    grid(rows, "inspect-layer-table", column_config=config, height=min(38 + 35 * len(rows), 340))
    download_csv("growth", rows)


# Margins


def draw_margins(subject: Subject) -> None:
    """Draw the distribution of the margins after each layer."""
    there = [record["number"] for record in subject.records if record["margins"]]
    on_table = any(stage["margins"] for stage in subject.stages)
    if not there and not on_table:
        st.info("This forest predicts numbers, not classes: its rows have no margins.")
        return
    with st.container(horizontal=True, gap="medium"):
        shape = st.segmented_control(
            "Show", ["Distribution", "Cumulative"], default="Distribution", required=True, key="inspect-margin-shape"
        )
        places = [HELD_OUT, TABLE] if on_table else [HELD_OUT]
        wanted = st.pills(
            "Rows", places, default=places[:1], selection_mode="multi", key="inspect-margin-rows", help=WHOSE_ROWS
        )
        chosen = st.pills(
            "Layers", there, default=some(there, MAX_OVERLAID), selection_mode="multi", key=f"inspect-margin-{there}"
        )
    series = tables.margin_series(subject.records, subject.stages, wanted, chosen)
    if not series:
        st.info("Choose the rows and at least one layer.")
        return
    cumulative = shape == "Cumulative"
    figure = plots.margin_distribution(series, "Margins after each layer", cumulative=cumulative)
    picture(figure, "margins", f"{MARGIN} Good: each layer moves the rows to the right.")
    download_csv("margins", tables.margin_rows(series))


# Maps of rows


def draw_maps(subject: Subject) -> None:
    """Draw the linked t-SNE maps of the layers, and the marked rows."""
    layers = _inspected(subject)
    held = marks(subject.digest)
    there = [stage["number"] for stage in layers.stages]
    with st.container(horizontal=True, gap="medium"):
        by = st.segmented_control(
            "Colour by", list(COLOURINGS), default="class", format_func=COLOURINGS.__getitem__, required=True,
            key="inspect-colour",
        )  # fmt: skip
        chosen = there
        if len(there) > 1:
            chosen = st.pills("Layers", there, default=some(there), selection_mode="multi", key="inspect-map-layers")
    if chosen:
        row_maps(layers, sorted(chosen), str(by), held, "t-sne")
        st.caption(
            f"Rows are close together if the learners predict much the same for them. S_A/S_E: {SEPARATION.lower()}"
        )
    else:
        st.info("Choose at least one layer.")
    _draw_marked(layers, held)


def _has_truth(layers: Layers) -> bool:
    return bool((layers.truth != UNKNOWN).any())


def _mark_mistakes(held: Marks, layers: Layers) -> None:
    held.change(sorted(tables.mistakes(layers, len(layers.rows))))


def _draw_marked(layers: Layers, held: Marks) -> None:
    with st.container(key="inspect-marked"):
        with st.container(horizontal=True, vertical_alignment="center"):
            if held.rows:
                st.markdown(f"**{counted(len(held.rows), 'row')} marked**", width="content")
                download_csv("marked-rows", _marked_csv(layers, held.digest, held.rows))
            else:
                words = "Mark rows in a map to list them here: drag a frame around them, or click one."
                st.caption(words, width="content")
            st.button(
                "Mark all mistakes", on_click=_mark_mistakes, args=(held, layers), disabled=not _has_truth(layers)
            )
        if not held.rows:
            return
        _row_list(layers, held.rows, f"inspect-marked-{hash(held.rows)}")
        st.caption("Tick a row to follow it through the layers.")


@st.cache_data(show_spinner=False, max_entries=16)
def _marked_csv(_layers: Layers, digest: str, positions: tuple[int, ...]) -> str:
    return str(tables.marked_rows(_layers, positions).to_pandas().to_csv(index=False))


def _row_list(layers: Layers, positions: Sequence[int], key: str) -> None:
    """Draw rows as a table; a tick opens the page of one row."""
    found = tables.marked_rows(layers, positions)
    margin = st.column_config.NumberColumn(format="%.3f")
    config = {name: margin for name in found.column_names if name.startswith("margin ")}
    grid(
        short_texts(found), key, column_config=config, height=min(38 + 35 * len(positions), 320),
        on_select=lambda: _tick(layers, positions, key), selection_mode="single-row",
    )  # fmt: skip


def _tick(layers: Layers, positions: Sequence[int], key: str) -> None:
    ticked = st.session_state[key]["selection"]["rows"]
    if ticked and ticked[0] < len(positions):
        choose_row(int(layers.rows[positions[ticked[0]]]))
        st.session_state[TABS] = ROW_TAB


# One row


def choose_row(row: int) -> None:
    """Choose the row that is shown, by its number in the table."""
    st.session_state["inspect-row"] = st.session_state["inspect-row-kept"] = row


def draw_row(subject: Subject) -> None:
    """Draw one row's way through the layers."""
    layers = _inspected(subject)
    lists = _lists(layers, marks(subject.digest))
    rows = layers.rows.tolist()
    kept = st.session_state.get("inspect-row-kept")
    if st.session_state.get("inspect-row") not in rows:
        first = next(iter(lists.values()), [0])[0]
        st.session_state["inspect-row"] = kept if kept in rows else rows[first]
    with st.container(horizontal=True, gap="medium"):
        row = st.selectbox(
            "Row", rows, key="inspect-row", width=200, help="Type the number of a row of the sample.",
        )  # fmt: skip
        if lists:
            which = st.segmented_control("Rows to inspect", list(lists), key="inspect-row-list")
    st.session_state["inspect-row-kept"] = row
    if lists and which in lists:
        _row_list(layers, lists[which], f"inspect-list-{which}-{hash(tuple(lists[which]))}")
    _draw_way(layers, rows.index(row))


def _lists(layers: Layers, held: Marks) -> dict[str, list[int]]:
    lists = {
        "Most confident errors": tables.mistakes(layers, MAX_LISTED),
        "Changed their class": tables.changed(layers, MAX_LISTED),
        "Marked": list(held.rows),
    }
    return {name: positions for name, positions in lists.items() if positions}


def _draw_way(layers: Layers, at: int) -> None:
    truth, left = int(layers.truth[at]), int(layers.left_at[at])
    depth = len(layers.stages)
    with st.container(key="inspect-way"):
        st.markdown(" ".join(plain(word) for word in tables.row_story(layers, at)))
        left_side, right_side = st.columns([3, 2])
        with left_side:
            vectors = tables.known(layers.vectors[:left, :, at])
            said = tables.known(layers.outputs[:left, at])
            named = truth if truth != UNKNOWN else None
            words = "A class vector: the probability that a learner gives each class. Darker blue is more confident"
            words += "; good is a dark cell in the dotted frame." if named is not None else "."
            picture(plots.class_vectors(vectors, said, layers.learners, layers.classes, named), "class-vectors", words)
        with right_side:
            margins = [float(layers.margin(number)[at]) for number in range(1, depth + 1)]
            names = [layers.classes[int(layers.predicted(number)[at])] for number in range(1, depth + 1)]
            if truth != UNKNOWN:
                picture(plots.row_margin(margins, names, left), "row-margin", f"{MARGIN} Good: it climbs.")
            st.markdown("**The row itself**")
            own = layers.sample.slice(at, 1).to_pylist()[0]
            grid(
                [{"Column": name, "Value": str(value)[:200]} for name, value in own.items()], "inspect-own", height=260
            )
        download_csv("class-vectors", tables.vector_rows(layers, at))


# Learners


def draw_learners(subject: Subject) -> None:
    """Draw how good each learner is, which of them agree, and what they use."""
    learners = [learner["name"] for learner in subject.records[0]["learners"]]
    places: dict[str, Sequence[Layer]] = {HELD_OUT: subject.records}
    if any(scores for stage in subject.stages for scores in stage["learner_scores"] if any(scores.values())):
        places[TABLE] = subject.stages
    with st.container(horizontal=True, gap="medium"):
        where = st.segmented_control(
            "Rows", list(places), default=HELD_OUT, required=True, key="inspect-learner-rows", help=WHOSE_ROWS
        )
        measures = _measures(places[str(where)])
        measure = st.selectbox(
            "Metric", measures, index=measures.index(subject.metric) if subject.metric in measures else 0,
            format_func=metric_title, width=240, key=f"inspect-measure-{where}",
        )  # fmt: skip
    layers = places[str(where)]
    scores = tables.quality(layers, measure)
    at = [layer["number"] for layer in layers]
    words = "How good each learner is alone. Good: all improve from layer to layer, and none is far behind."
    if screened(subject.kept):
        words += " Later layers are evaluated on the rows that did not leave before, which are the hard ones."
    picture(plots.learner_quality(learners, at, scores, metric_title(measure), str(where)), "learners", words)
    download_csv("learners", tables.quality_rows(learners, layers, measures, str(where)))
    if subject.layers:
        _draw_agreement(learners, subject.stages)


def _measures(layers: Sequence[Layer]) -> list[str]:
    first = layers[0]
    scores = first["learner_scores"] if "learner_scores" in first else [each["scores"] for each in first["learners"]]
    return list(dict.fromkeys(name for part in scores for name in part))


def _draw_agreement(learners: Sequence[str], stages: Sequence[Layer]) -> None:
    at = [stage["number"] for stage in stages]
    layer = st.segmented_control("Layer", at, default=at[0], required=True, key="inspect-learner-layer")
    stage = next(stage for stage in stages if stage["number"] == layer)
    left, right = st.columns(2)
    with left:
        words = "How often two learners predict the same class. Near 100 % one of them adds nothing: change it."
        picture(plots.agreement(learners, stage["agreement"], stage["number"]), "agreement", words)
        download_csv("agreement", tables.agreement_rows(learners, stages))
    with right:
        rows = [{"column": row["feature"], "importance": row["importance"]} for row in stage["importances"]]
        if rows:
            figure = plots.importances(rows, 15).update_xaxes(title="Share of the layer's importance")
            words = "What the learners of this layer use: columns of the table, and predictions of the layer before."
            picture(figure, "importances", words)
        else:
            st.info("The learners of this forest do not measure importances.")
    if any(stage["importances"] for stage in stages):
        words = "Good: later layers use the predictions of the layer before, but not only those."
        picture(plots.importances_by_layer(stages), "importances-by-layer", words)
        download_csv("importances", tables.importance_rows(learners, stages))


# Screening


def draw_screening(subject: Subject) -> None:
    """Draw which rows left early, and which would have left with another share of errors."""
    did = screened(subject.kept)
    sides = st.columns(2 if subject.layers and _has_truth(subject.layers) else 1)
    with sides[0]:
        _draw_what_happened(subject, did=did)
    if len(sides) > 1 and subject.layers:
        with sides[1]:
            _draw_what_if(subject.layers)


def _draw_what_happened(subject: Subject, *, did: bool) -> None:
    st.markdown("**What happened**")
    if not did:
        st.info("This forest does not screen: every row goes through all layers. The preset gcForest-CS does.")
        return
    layers, what = (subject.stages, "inspected table") if subject.layers else (subject.kept, "training rows")
    flows = tables.flows_of(layers)
    picture(plots.screening(flows, f"Rows that left early: {what}"), "screening", tables.flow_words(flows))
    download_csv("screening", tables.flow_rows(flows, what))


def _draw_what_if(layers: Layers) -> None:
    from deepforest.inspection import screening_flow

    st.markdown("**What confidence screening would do**")
    share = st.slider(
        "Share of errors a", 0.01, 0.99, USUAL_SHARE, 0.01, key="inspect-share",
        help="Rows leave after a layer if its error on rows as confident is below a times its error on all rows.",
    )  # fmt: skip
    flows = [flow._asdict() for flow in screening_flow(layers.outputs, layers.truth, share)]
    with st.container(key="inspect-what-if"):
        words = f"With a = {share:.2f}: {tables.flow_words(flows)}"
        picture(plots.screening(flows, f"Rows that would leave, of the {len(layers.rows):,} sampled"), "what-if", words)
        download_csv("what-if", tables.flow_rows(flows, f"a = {share:.2f}"))


def _inspected(subject: Subject) -> Layers:
    assert subject.layers is not None, "drawn only for an inspection"
    return subject.layers
