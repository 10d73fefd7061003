"""The parts of the Inspect page, each drawn when its tab is open.

- ``draw_growth``, ``draw_margins``, ``draw_learners``, ``draw_screening``  need only layer records
- ``draw_maps``, ``draw_row``  need an inspection

The first three can show a second forest beside the first, on the same axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import streamlit as st

from deepforest.metrics import lower_is_better, metric_title
from deepforest.records import SCORED_ON
from engine.errors import BadInput
from engine.text import counted, readable
from nodes.inspection.layers import UNKNOWN, Layers
from ui.studio import plots
from ui.studio.inspect import tables
from ui.studio.inspect.forest_source import ForestView, depth_text, growth_text, screened
from ui.studio.inspect.images import RowImages, find_shape, may_be_images, parse_shape
from ui.studio.inspect.maps import LinkedRows, MapGroup, Marks, link_rows, marks, row_maps, some
from ui.studio.inspect.neighbours import draw_neighbours, neighbour_rows, neighbourhoods
from ui.studio.inspect.why import draw_why
from ui.studio.plots.layers import HELD_OUT, TABLE, dropped_numbers, scored_on
from ui.studio.screen_text import plain
from ui.studio.widgets import download_csv, grid, picture, short_texts, side_by_side

COLOURINGS = {"class": "Class", "mistake": "Mistakes", "margin": "Margin"}
MAX_LISTED = 50
MAX_OVERLAID = 6
TABS = "tab"
"""Key of the open tab, and its name in the address of the page."""
MAPS_TAB, ROW_TAB = "t-SNE", "One row"
USUAL_SHARE = 0.1
WHOSE_ROWS = f"{HELD_OUT}: training rows, each evaluated by fits that did not see it."
MARGIN = (
    "The margin of a row is the score of its true class minus the best score of another class: "
    "below 0 the prediction is wrong, 1 is certain."
)
SHORT_SCORED_ON = {
    "blind": "unseen rows",
    "validation": "validation rows",
    "out_of_fold": "out-of-fold",
}
"""Which rows a score is of, for the head of a column."""
RATIO = "The spread of the margins divided by their mean."
SEPARATION = (
    "Spread of the rows within their classes divided by the spread between the classes. "
    "Smaller means better separated."
)

WITHOUT_INPUT = (
    "An earlier version made this inspection, without a map of the input. Run the Inspect layers "
    "node again to add it."
)
MAX_PICTURES = 500
"""Rows of a list that have a picture."""
LONGEST_SHAPE = 30
"""Most letters of a shape that a user types."""

Layer = Mapping[str, Any]


# Growth


def draw_growth(forest: ForestView, other: ForestView | None = None) -> None:
    """Draw score, margins and margin ratio of each layer, and which layers are kept."""
    if other is not None:
        _draw_growth_of_two(forest, other)
        return
    records, stages, title = forest.records, forest.stages, metric_title(forest.metric)
    better = "lower" if lower_is_better(forest.metric) else "higher"
    score_words = (
        f"The score after each layer, with one standard error: {better} is better. A layer without "
        "a proven gain is dropped."
    )
    sentence = depth_text(records, growing=forest.unfinished is not None)
    if sentence:
        st.markdown(plain(sentence))
    ratio_words = f"Margin ratio. {RATIO} Good: it falls while the score improves."
    growth = plots.growth(records, forest.metric, title, stages)
    if forest.predicts_numbers:
        picture(growth, "growth", f"{score_words} {_whose_scores(records)}")
        _draw_layer_table(forest, title)
        return
    side_by_side(
        [
            (growth, "growth", f"{score_words} {_whose_scores(records)}"),
            (_ratio_plot(forest, title), "margin-ratio", ratio_words),
        ]
    )
    left, right = st.columns(2)
    with left:
        words = f"{MARGIN} Good: the mean rises and the bars get shorter."
        picture(plots.margin_growth(records, stages), "margins-by-layer", words)
    with right:
        _draw_layer_table(forest, title)


def _draw_growth_of_two(*forests: ForestView) -> None:
    """Draw growth and margins of two forests side by side, by one metric and on the same axes."""
    metric = _common_metric(forests)
    scores, margins = [], []
    for forest in forests:
        shown = metric or forest.metric
        records = tables.scored_by(forest.records, forest.metric, shown)
        scores.append(plots.growth(records, shown, metric_title(shown), forest.stages))
        margins.append(plots.margin_growth(forest.records, forest.stages))
    plots.share_axes(margins)
    if metric:
        plots.share_axes(scores)
    else:
        st.caption("The two forests have no metric in common: their scores have different axes.")
    _draw_pairs(forests, scores, "growth", _captions_of_scores(forests))
    words = f"{MARGIN} Good: the mean rises and the bars get shorter."
    _draw_pairs(forests, margins, "margins-by-layer", [words, words], titled=False)
    for column, forest in zip(st.columns(2), forests, strict=True):
        with column:
            _draw_layer_table(forest, metric_title(forest.metric))


def _common_metric(forests: Sequence[ForestView]) -> str | None:
    """Draw the choice of a metric that all forests were scored by; None without such a metric."""
    common = tables.metrics_of(forests[0].records, forests[0].metric)
    for forest in forests[1:]:
        known = tables.metrics_of(forest.records, forest.metric)
        common = [metric for metric in common if metric in known]
    if not common:
        return None
    return st.selectbox(
        "Metric", common, format_func=metric_title, width=240, key=f"inspect-growth-{common}"
    )


def _captions_of_scores(forests: Sequence[ForestView]) -> list[str]:
    """Return under each plot of growth how far the forest has grown, and whether depth paid."""
    captions = []
    for forest in forests:
        growing = forest.unfinished is not None
        texts = [growth_text(forest.records, growing=growing)]
        texts += [depth_text(forest.records, growing=growing), _whose_scores(forest.records)]
        captions.append(" ".join(plain(text) for text in texts if text))
    return captions


def _draw_pairs(
    forests: Sequence[ForestView],
    figures: Sequence[Any],
    name: str,
    captions: Sequence[str],
    *,
    titled: bool = True,
) -> None:
    """Draw a figure of each forest in a column, both of one height, with the forest's name."""
    height = max(figure.layout.height for figure in figures)
    for at, column in enumerate(st.columns(2)):
        with column:
            if titled:
                st.markdown(f"**{plain(readable(forests[at].title))}**")
            # The second picture needs a key of its own.
            file = name if at == 0 else f"{name}-2"
            picture(figures[at].update_layout(height=height), file, captions[at])


def _whose_scores(records: Sequence[Layer]) -> str:
    """Return which rows the scores that decide are of, as a sentence."""
    words = SCORED_ON[scored_on(records[0])]
    return f"Scored {words}." if words.startswith("out-of-fold") else f"Scored on {words}."


def _ratio_plot(forest: ForestView, title: str) -> Any:
    """Return the plot of margin ratio and score by layer.

    It shows the inspected table if that was scored, else the held-out training rows.
    """
    # An inspected table may have no target, or none that this metric can use.
    scored = [
        (stage, stage["scores"][forest.metric])
        for stage in forest.stages
        if _has(stage, forest.metric)
    ]
    if scored:
        return plots.ratio_and_score(
            [stage for stage, _ in scored], [score for _, score in scored], title, TABLE
        )
    return plots.ratio_and_score(
        forest.records, [record["score"] for record in forest.records], title, HELD_OUT
    )


def _has(stage: Layer, metric: str) -> bool:
    """Return whether the inspected table was scored by this metric after this layer."""
    return (stage["scores"] or {}).get(metric) is not None


def _draw_layer_table(forest: ForestView, title: str) -> None:
    """Draw the figures of each layer as a table with a download."""
    rows = tables.growth_rows(forest.records, forest.stages, forest.metric)
    number = st.column_config.NumberColumn(format="%.4f")
    # All columns are numbers except these three.
    config: dict[str, Any] = {
        name: number for name in rows[0] if name not in ("layer", "kept", "why")
    }
    config["score"] = st.column_config.NumberColumn(
        f"{plain(title)}, {SHORT_SCORED_ON[scored_on(forest.records[0])]}",
        format="%.4f",
        help=f"{_whose_scores(forest.records)} This score decides about growth.",
    )
    config["± score"] = st.column_config.NumberColumn(
        format="%.4f", help="Standard error: how much the score would vary with other rows."
    )
    config["out-of-fold"] = st.column_config.NumberColumn(
        format="%.4f",
        help="The same metric of training rows, each evaluated by fits that did not see it. It "
        "does not decide.",
    )
    config["table score"] = st.column_config.NumberColumn(f"{plain(title)}, table", format="%.4f")
    for where in ("", "table "):
        config[f"{where}margin ratio"] = st.column_config.NumberColumn(
            format="%.4f", help=f"{RATIO} It should fall from layer to layer."
        )
    config["S_A/S_E of the map"] = st.column_config.NumberColumn(
        format="%.4f", help=f"{SEPARATION} On the t-SNE map."
    )
    config["S_A/S_E"] = st.column_config.NumberColumn(
        format="%.4f", help=f"{SEPARATION} On the class vectors."
    )
    config["why"] = st.column_config.TextColumn(width="large")
    key = f"inspect-layer-table-{forest.key}"
    grid(rows, key, column_config=config, height=min(38 + 35 * len(rows), 340))
    download_csv("growth" if not forest.is_second else "growth-2", rows)


# Margins


def draw_margins(forest: ForestView, other: ForestView | None = None) -> None:
    """Draw the distribution of the margins after each layer.

    The user chooses the layers, and whose margins: of held-out training rows or the inspected
    table.
    """
    forests = [forest] if other is None else [forest, other]
    numbers, on_table = set(), False
    for each in forests:
        numbers |= {record["number"] for record in each.records if record["margins"]}
        on_table |= any(stage["margins"] for stage in each.stages)
    with_margins = sorted(numbers)
    gone = dropped_numbers(forest.records) if other is None else []
    if not with_margins and not on_table:
        st.info("This forest predicts numbers, not classes: its rows have no margins.")
        return
    with st.container(horizontal=True, gap="medium"):
        shape = st.segmented_control(
            "Show",
            ["Distribution", "Cumulative"],
            default="Distribution",
            required=True,
            key="inspect-margin-shape",
        )
        row_sets = [HELD_OUT, TABLE] if on_table else [HELD_OUT]
        chosen_sets = st.pills(
            "Rows",
            row_sets,
            default=row_sets[:1],
            selection_mode="multi",
            key="inspect-margin-rows",
            help=WHOSE_ROWS,
        )
        chosen = st.pills(
            "Layers",
            with_margins,
            default=some(with_margins, MAX_OVERLAID),
            selection_mode="multi",
            format_func=lambda number: f"{number} (dropped)" if number in gone else str(number),
            key=f"inspect-margin-{with_margins}",  # a new layer: a new widget, with a new default
        )
    series = [
        tables.margin_series(each.records, each.stages, chosen_sets, chosen) for each in forests
    ]
    if not any(series):
        st.info("Choose the rows and at least one layer.")
        return
    cumulative = shape == "Cumulative"
    title = "Margins after each layer"
    figures = [plots.margin_distribution(each, title, cumulative=cumulative) for each in series]
    words = f"{MARGIN} Good: each layer moves the rows to the right."
    if other is None:
        picture(figures[0], "margins", words)
    else:
        plots.share_axes(figures)
        _draw_pairs(forests, figures, "margins", [words, words])
    for at, column in enumerate(st.columns(len(forests))):
        with column:
            download_csv("margins" if at == 0 else "margins-2", tables.margin_rows(series[at]))


# Maps of rows


def draw_maps(forest: ForestView, other: ForestView | None = None) -> None:
    """Draw the linked t-SNE maps of the chosen panels, and the marked rows under them."""
    layers = _inspected(forest)
    groups = [MapGroup(readable(forest.title), layers, forest.digest)]
    if other is not None and other.layers is not None:
        groups.append(MapGroup(readable(other.title), other.layers, other.digest))
    linked = _linked(groups, tuple(group.digest for group in groups))
    marked = marks(forest.digest)
    marked.put_beside(groups[-1].digest, len(layers.rows))
    with_truth = any(_has_truth(group.layers) for group in groups)
    numbers = sorted({number for group in groups for number in group.layers.panels})
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        by = st.segmented_control(
            "Colour by",
            list(COLOURINGS) if with_truth else ["class"],
            default="class",
            format_func=COLOURINGS.__getitem__,
            required=True,
            # Other choices, another widget: the chosen one may not exist here.
            key="inspect-colour" if with_truth else "inspect-colour-class",
        )
        chosen = numbers
        if len(numbers) > 1:
            chosen = st.pills(
                "Layers",
                numbers,
                default=some(numbers),
                selection_mode="multi",
                format_func=lambda number: str(number) if number else "Input",
                key=f"inspect-map-layers-{numbers}",
            )
        images = row_images(forest)
    if 0 not in layers.panels:
        st.info(WITHOUT_INPUT, icon=":material/info:")
    if not with_truth:
        st.caption("The inspected rows have no true classes: colours are of the predicted ones.")
    if other is not None:
        st.caption(_pair_words(groups, linked))
    if chosen:
        sheet = images.sheet if images else None
        row_maps(groups, linked, sorted(chosen), str(by), marked, "t-sne", sheet)
        st.caption(
            "Rows are close together if the learners predict similar probabilities for them; in "
            "the map of the input, if their columns are similar. Ctrl and the wheel zoom; *Move* "
            "or the arrow keys move. "
            f"S_A/S_E: {SEPARATION[:1].lower()}{SEPARATION[1:]}"
        )
    else:
        st.info("Choose at least one layer.")
    _draw_marked(groups, linked, marked, images)


@st.cache_resource(show_spinner="Comparing the rows…", max_entries=8)
def _linked(_groups: Sequence[MapGroup], digests: tuple[str, ...]) -> LinkedRows:
    """Return the rows of the groups from the cache."""
    return link_rows(_groups)


def _pair_words(groups: Sequence[MapGroup], linked: LinkedRows) -> str:
    """Return whether the maps of two forests are of the same rows."""
    if len(groups) < 2:
        return "The second forest was not inspected: it has no maps to compare."
    count = len(groups[1].layers.rows)
    if not linked.shared:
        return (
            "The two forests were inspected on different rows: marks in the maps of one are not "
            "seen in the other."
        )
    if linked.shared == count == len(groups[0].layers.rows):
        return "Both forests were inspected on the same rows: marks are linked in all maps."
    return (
        f"The two inspections share {counted(linked.shared, 'row')}: marks of shared rows are seen "
        "in all maps."
    )


# Rows that are images


def row_images(forest: ForestView) -> RowImages | None:
    """Draw the setting of images; return the images of the rows if there are any.

    The shape is found by the columns. The user may type another one, or none. Columns that cannot
    be pixels have no setting.
    """
    layers = _inspected(forest)
    found = _found_shape(layers, forest.digest)
    if found is None:
        return None
    saved = f"inspect-shape-kept-{forest.digest}"
    key = f"inspect-shape-{forest.digest}"
    # Streamlit drops the value of a widget that is not drawn, as in another tab.
    st.session_state.setdefault(key, st.session_state.get(saved, found))
    with st.popover("Images", icon=":material/image:"):
        typed = st.text_input(
            "Shape of the images",
            key=key,
            placeholder="28 × 28",
            max_chars=LONGEST_SHAPE,
            help="Height × width, if the columns of a row are the pixels of an image; × 3 for "
            "colours. Empty: rows are not shown as images.",
        )
        st.session_state[saved] = typed
        try:
            return _images(layers, forest.digest, typed, found)
        except BadInput as error:
            st.error(plain(f"{str(error)[:1].upper()}{str(error)[1:]}."))
            return None


@st.cache_data(show_spinner=False, max_entries=16)
def _found_shape(_layers: Layers, digest: str) -> str | None:
    """Return the shape of the images that the columns suggest, as text.

    It is empty if only the user can know the shape, and None if the columns cannot be pixels.
    """
    if not may_be_images(_layers.features, _layers.sample):
        return None
    shape = find_shape(_layers.features, _layers.sample)
    return shape.text if shape else ""


@st.cache_resource(show_spinner="Drawing the rows…", max_entries=4)
def _images(_layers: Layers, digest: str, typed: str, found: str) -> RowImages | None:
    """Return the images of the rows in this shape; raise ``BadInput`` if it does not fit."""
    features, rows = _layers.features, _layers.sample
    # Names say which column is which pixel, if they say it.
    is_found = bool(found) and typed.strip() == found
    shape = find_shape(features, rows) if is_found else parse_shape(typed, features, rows)
    return RowImages(shape, rows) if shape else None


def _has_truth(layers: Layers) -> bool:
    """Return whether the true class of any sampled row is known."""
    return bool((layers.truth != UNKNOWN).any())


def _mark_mistakes(marked: Marks, layers: Layers) -> None:
    """Mark all rows whose final prediction is wrong."""
    marked.change(sorted(tables.mistakes(layers, len(layers.rows))))


def _draw_marked(
    groups: Sequence[MapGroup], linked: LinkedRows, marked: Marks, images: RowImages | None
) -> None:
    """Draw the marked rows as a list with a download, or how to mark rows."""
    layers = groups[0].layers
    positions = linked.positions(0, marked.rows)
    with st.container(key="inspect-marked"):
        with st.container(horizontal=True, vertical_alignment="center"):
            if marked.rows:
                st.markdown(f"**{counted(len(marked.rows), 'row')} marked**", width="content")
                download_csv("marked-rows", _marked_csv(layers, marked.digest, tuple(positions)))
            else:
                st.caption(
                    "Mark rows in a map to list them here: drag a frame around them, or click one.",
                    width="content",
                )
            mark = partial(_mark_mistakes, marked, layers)
            st.button("Mark all mistakes", on_click=mark, disabled=not _has_truth(layers))
        if positions:
            # Other rows, another widget: the tick belongs to a position in the list.
            second = _second_predictions(groups, linked, positions)
            key = f"inspect-marked-{hash(tuple(positions))}"
            _row_list(layers, positions, key, images, second)
            st.caption("Tick a row to follow it through the layers.")
        if len(groups) > 1:
            own = [row for row in marked.rows if row >= len(layers.rows)]
            others = linked.positions(1, own)
            if others:
                st.markdown(f"Marked rows that only {plain(groups[1].title)} was inspected on:")
                rows = tables.marked_rows(groups[1].layers, others)
                grid(short_texts(rows), f"inspect-marked-2-{hash(tuple(others))}", height=220)


def _second_predictions(
    groups: Sequence[MapGroup], linked: LinkedRows, positions: Sequence[int]
) -> tuple[str, list[str | None]] | None:
    """Return what the second forest predicts for rows of the first, with the title of the column.

    It is None without a second forest.
    """
    if len(groups) < 2:
        return None
    layers = groups[1].layers
    predicted = layers.predicted(len(layers.stages))
    place = {int(row): at for at, row in enumerate(linked.index[1])}
    names: list[str | None] = []
    for row in positions:
        names.append(layers.classes[int(predicted[place[row]])] if row in place else None)
    return f"predicted by {groups[1].title}", names


@st.cache_data(show_spinner=False, max_entries=16)
def _marked_csv(_layers: Layers, digest: str, positions: tuple[int, ...]) -> str:
    """Return the marked rows as CSV text from the cache: the page draws it often."""
    return str(tables.marked_rows(_layers, positions).to_pandas().to_csv(index=False))


def _row_list(
    layers: Layers,
    positions: Sequence[int],
    key: str,
    images: RowImages | None,
    second: tuple[str, list[str | None]] | None = None,
) -> None:
    """Draw rows of the sample as a table; a tick opens the tab of one row.

    ``second`` is a column with the predictions of another forest, by its title.
    """
    rows = tables.marked_rows(layers, positions)
    margin = st.column_config.NumberColumn(format="%.3f")
    config: dict[str, Any] = {
        name: margin for name in rows.column_names if name.startswith("margin ")
    }
    config["truth"] = st.column_config.TextColumn("true class")
    row_height = 35
    if second is not None:
        rows = rows.add_column(2, second[0], pa.array(second[1], pa.string()))
    if images is not None:
        row_height = 52
        drawn: list[str | None] = [images.address(at) for at in positions[:MAX_PICTURES]]
        drawn += [None] * (len(positions) - len(drawn))
        rows = _with_pictures(short_texts(rows), drawn)
        config["image"] = st.column_config.ImageColumn("image", width=64)
    else:
        rows = short_texts(rows)
    grid(
        rows, key, column_config=config, row_height=row_height,
        height=min(38 + row_height * len(positions), 360),
        on_select=lambda: _tick(layers, positions, key), selection_mode="single-row",
    )  # fmt: skip


def _with_pictures(rows: pa.Table, drawn: Sequence[str | None]) -> pa.Table:
    """Return the table with a column of images in front, unless it has such a column itself."""
    if "image" in rows.column_names:
        return rows
    return rows.add_column(0, "image", pa.array(drawn, pa.string()))


def _tick(layers: Layers, positions: Sequence[int], key: str) -> None:
    """Open the tab of the row that was ticked."""
    ticked = st.session_state[key]["selection"]["rows"]
    if ticked and ticked[0] < len(positions):
        choose_row(int(layers.rows[positions[ticked[0]]]))
        st.session_state[TABS] = ROW_TAB


# One row


def choose_row(row: int) -> None:
    """Choose the row that the tab of one row shows, by its number in the table.

    It is saved under a second key as well: Streamlit drops the value of a widget that is not drawn.
    """
    st.session_state["inspect-row"] = st.session_state["inspect-row-kept"] = row


def draw_row(forest: ForestView) -> None:
    """Draw one row on its way through the layers.

    The user chooses it by its number or from a list. At first it is the most confident error.
    """
    layers = _inspected(forest)
    lists = _lists(layers, marks(forest.digest))
    rows = layers.rows.tolist()
    saved = st.session_state.get("inspect-row-kept")
    # Another inspection may have sampled other rows.
    if st.session_state.get("inspect-row") not in rows:
        first = next(iter(lists.values()), [0])[0]
        st.session_state["inspect-row"] = saved if saved in rows else rows[first]
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        hint = "Type the number or the class of a row of the sample, or right or wrong."
        titles = _row_titles(layers, forest.digest)
        row = st.selectbox(
            "Row", rows, key="inspect-row", width=340, help=hint, format_func=titles.__getitem__
        )
        if lists:
            which = st.segmented_control("Rows to inspect", list(lists), key="inspect-row-list")
        images = row_images(forest)
    st.session_state["inspect-row-kept"] = row
    if lists and which in lists:
        key = f"inspect-list-{which}-{hash(tuple(lists[which]))}"
        _row_list(layers, lists[which], key, images)
    _draw_way(layers, rows.index(row), images)
    draw_why(forest, layers, rows.index(row))
    _draw_neighbours(layers, rows.index(row), images, marks(forest.digest))


@st.cache_data(show_spinner=False, max_entries=16)
def _row_titles(_layers: Layers, digest: str) -> dict[int, str]:
    """Return the names of all rows in the list to choose from, by their number, from the cache."""
    return tables.row_titles(_layers)


def _lists(layers: Layers, marked: Marks) -> dict[str, list[int]]:
    """Return the lists of rows to choose from, by title; empty lists are left out."""
    lists = {
        "Most confident errors": tables.mistakes(layers, MAX_LISTED),
        "Changed their class": tables.changed(layers, MAX_LISTED),
        "Marked": [row for row in marked.rows if row < len(layers.rows)],
    }
    return {name: positions for name, positions in lists.items() if positions}


def _draw_way(layers: Layers, at: int, images: RowImages | None) -> None:
    """Draw the story, the class vectors and the margins of the row at this position."""
    truth, left = int(layers.truth[at]), int(layers.left_at[at])
    depth, gone = len(layers.stages), dropped_numbers(layers.records)
    with st.container(key="inspect-way"):
        with st.container(horizontal=True, vertical_alignment="center"):
            if images is not None:
                _draw_image(images, at)
            st.markdown(" ".join(plain(word) for word in tables.row_story(layers, at)))
        left_side, right_side = st.columns([3, 2])
        with left_side:
            vectors = tables.known(layers.vectors[:left, :, at])
            outputs = tables.known(layers.outputs[:left, at])
            true_class = truth if truth != UNKNOWN else None
            words = (
                "A class vector: the probability that a learner predicts for each class. "
                "The stronger the blue, the more probable."
            )
            if true_class is not None:
                words += (
                    " Good: the strongest blue is in the dotted frame, which is the true class."
                )
            figure = plots.class_vectors(
                vectors, outputs, layers.learners, layers.classes, true_class, gone
            )
            picture(figure, "class-vectors", words)
        with right_side:
            margins = [float(layers.margin(number)[at]) for number in range(1, depth + 1)]
            names = [
                layers.classes[int(layers.predicted(number)[at])] for number in range(1, depth + 1)
            ]
            if truth != UNKNOWN:
                figure = plots.row_margin(margins, names, left, gone)
                picture(figure, "row-margin", f"{MARGIN} Good: it rises.")
            st.markdown("**The row itself**")
            own = layers.sample.slice(at, 1).to_pylist()[0]
            rows = [{"Column": name, "Value": str(value)[:200]} for name, value in own.items()]
            grid(rows, "inspect-own", height=260)
        download_csv("class-vectors", tables.vector_rows(layers, at))


def _draw_image(images: RowImages, at: int) -> None:
    """Draw the image of a row, enlarged without smoothing."""
    looks = "height:112px; image-rendering:pixelated; background:white; border-radius:6px"
    st.html(
        f"<img class='row-image' alt='The row as an image' style='{looks}' "
        f"src='{images.address(at)}'>",
        width="content",
    )


def _draw_neighbours(layers: Layers, at: int, images: RowImages | None, marked: Marks) -> None:
    """Draw the rows that are nearest to a row: in the input, and after each layer."""
    found = neighbourhoods(layers, at)
    # A sample of one row has no neighbours.
    if not found[0].positions:
        return
    with st.container(key="inspect-neighbours"):
        st.markdown("**Nearest rows**")
        words = (
            "The inspected rows that are nearest to this one, in the input and after each layer. "
            "Click one to open it."
        )
        if found[0].same_class is not None:
            words += (
                " A dashed frame: another class. Good: the frames get fewer from layer to layer."
            )
        st.caption(words if 0 in layers.panels else f"{words} {WITHOUT_INPUT}")
        draw_neighbours(layers, at, found, images, choose_row)
        near = [at, *(position for each in found for position in each.positions)]
        with st.container(horizontal=True):
            show = partial(_show_in_maps, marked, sorted(set(near)))
            st.button("Show them in the maps", on_click=show)
            download_csv("nearest-rows", neighbour_rows(layers, at, found))


def _show_in_maps(marked: Marks, positions: Sequence[int]) -> None:
    """Mark these rows and open the tab of the maps."""
    marked.change(positions)
    st.session_state[TABS] = MAPS_TAB


# Learners


def draw_learners(forest: ForestView) -> None:
    """Draw how good each learner is, which learners agree, and which columns they use."""
    learners = [learner["name"] for learner in forest.records[0]["learners"]]
    row_sets: dict[str, Sequence[Layer]] = {HELD_OUT: forest.records}
    # A table without a target gives no scores.
    if any(any(scores.values()) for stage in forest.stages for scores in stage["learner_scores"]):
        row_sets[TABLE] = forest.stages
    with st.container(horizontal=True, gap="medium"):
        where = st.segmented_control(
            "Rows",
            list(row_sets),
            default=HELD_OUT,
            required=True,
            key="inspect-learner-rows",
            help=WHOSE_ROWS,
        )
        measures = _measures(row_sets[str(where)])
        measure = st.selectbox(
            "Metric",
            measures,
            index=measures.index(forest.metric) if forest.metric in measures else 0,
            format_func=metric_title,
            width=240,
            key=f"inspect-measure-{where}",
        )
    layers = row_sets[str(where)]
    scores = tables.quality(layers, measure)
    at = [layer["number"] for layer in layers]
    words = (
        "The score of each learner alone. "
        "Good: all improve from layer to layer, and none is far behind."
    )
    if screened(forest.kept):
        words += (
            " Later layers are evaluated on the rows that did not leave early, "
            "which are the difficult ones."
        )
    gone = dropped_numbers(forest.records)
    figure = plots.learner_quality(learners, at, scores, metric_title(measure), str(where), gone)
    picture(figure, "learners", words)
    download_csv("learners", tables.quality_rows(learners, layers, measures, str(where)))
    if forest.layers:
        _draw_agreement(learners, forest.stages, gone)


def _measures(layers: Sequence[Layer]) -> list[str]:
    """Return the metrics by which the learners were scored; the layers are records or stages."""
    scores = tables.learner_scores(layers[0])
    return list(dict.fromkeys(name for part in scores for name in part))


def _draw_agreement(learners: Sequence[str], stages: Sequence[Layer], gone: Sequence[int]) -> None:
    """Draw how often learners agree and what they use: of one layer, then of all.

    ``gone`` are the numbers of the dropped layers.
    """
    at = [stage["number"] for stage in stages]
    layer = st.segmented_control(
        "Layer", at, default=at[0], required=True, key="inspect-learner-layer"
    )
    stage = next(stage for stage in stages if stage["number"] == layer)
    left, right = st.columns(2)
    with left:
        words = (
            "How often two learners predict the same class. "
            "Near 100 %, one of them adds nothing: change it."
        )
        picture(plots.agreement(learners, stage["agreement"], stage["number"]), "agreement", words)
        download_csv("agreement", tables.agreement_rows(learners, stages))
    with right:
        rows = [
            {"column": row["feature"], "importance": row["importance"]}
            for row in stage["importances"]
        ]
        if rows:
            figure = plots.importances(rows, 15).update_xaxes(
                title="Share of the layer's importance"
            )
            words = (
                "What the learners of this layer use: columns of the table, "
                "and predictions of the previous layer."
            )
            picture(figure, "importances", words)
        else:
            st.info("The learners of this forest do not measure importances.")
    if any(stage["importances"] for stage in stages):
        words = "Good: later layers use the predictions of the previous layer, but not only those."
        picture(plots.importances_by_layer(stages, gone), "importances-by-layer", words)
        download_csv("importances", tables.importance_rows(learners, stages))


# Screening


def draw_screening(forest: ForestView) -> None:
    """Draw which rows left early, and which would leave with other settings.

    The second part needs the true classes of an inspection.
    """
    sides = st.columns(2 if forest.layers and _has_truth(forest.layers) else 1)
    with sides[0]:
        _draw_what_happened(forest)
    if len(sides) > 1 and forest.layers:
        with sides[1]:
            _draw_what_if(forest.layers)
    elif forest.layers:
        st.caption("Inspect rows with known classes to see what confidence screening would do.")


def _draw_what_happened(forest: ForestView) -> None:
    """Draw how many rows left at each layer; if none left early, say so."""
    st.markdown("**What happened**")
    layers: Sequence[Layer] = forest.stages if forest.layers else forest.kept
    what = "inspected table" if forest.layers else "training rows"
    flows = tables.flows_of(layers)
    words = tables.flow_words(flows)
    if not screened(flows):
        st.info(
            f"{words} Rows leave early only in a forest with confidence screening, "
            "such as the preset gcForest-CS."
        )
        return
    picture(plots.screening(flows, f"Rows that left early: {what}"), "screening", words)
    download_csv("screening", tables.flow_rows(flows, what))


def _draw_what_if(layers: Layers) -> None:
    """Draw how many sampled rows would leave early with the chosen share of errors."""
    from deepforest.inspection import screening_flow

    st.markdown("**What confidence screening would do**")
    share = st.slider(
        "Share of errors a",
        0.01,
        0.99,
        USUAL_SHARE,
        0.01,
        key="inspect-share",
        help="A row leaves after a layer if the error rate of rows with at least its confidence "
        "is below a times the error rate of all rows.",
    )
    flows = [flow._asdict() for flow in screening_flow(layers.outputs, layers.truth, share)]
    words = f"With a = {share:.2f}: {tables.flow_words(flows)}"
    with st.container(key="inspect-what-if"):
        if not screened(flows):
            st.info(words)
            return
        title = f"Rows that would leave, of the {len(layers.rows):,} sampled"
        picture(plots.screening(flows, title), "what-if", words)
        download_csv("what-if", tables.flow_rows(flows, f"a = {share:.2f}"))


def _inspected(forest: ForestView) -> Layers:
    """Return the inspection; the caller draws tabs that only an inspection has."""
    assert forest.layers is not None, "drawn only for an inspection"
    return forest.layers
