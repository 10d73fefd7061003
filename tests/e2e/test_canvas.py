"""The canvas by mouse and keys, in a real browser: what its own modules cannot show without one.

What may be connected, undo, the clipboard, names, notes and the talk with Python are tested in
``tests/ui/studio/canvas``.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from engine.pipeline import Group, Node, Note, Pipeline
from engine.pipeline_file import dumps
from tests.e2e.studio import WIRES, Studio, chain, five_steps, many
from tests.e2e.tab import ROOT
from tests.waiting import until

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect

SCRIPT = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


def wires_of(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [edge.names for edge in pipeline.edges]


def wired(studio: Studio, wires: list[tuple[str, str]]) -> Pipeline:
    """The document in the file, once it has these edges."""
    return studio.saved(lambda pipeline: wires_of(pipeline) == wires)


def end_of(studio: Studio, wire: tuple[str, str], side: str = "target") -> tuple[float, float]:
    """Where an edge is taken by its end."""
    edge = studio.page.locator(f'.react-flow__edge[data-id="{wire[0]}>{wire[1]}"]')
    return studio.centre(edge.locator(f".react-flow__edgeupdater-{side}"))


def selected(studio: Studio, *names: str) -> None:
    """Wait until just these nodes are selected."""
    chosen = studio.page.locator(".react-flow__node.selected")
    until(
        lambda: (
            sorted(chosen.evaluate_all("nodes => nodes.map(n => n.dataset.id)")) == sorted(names)
        )
    )


def is_on_stage(studio: Studio, name: str) -> bool:
    node, stage = studio.box(studio.node(name)), studio.box(studio.page.locator(".stage"))
    return all(
        stage[start] <= node[start] and node[start] + node[size] <= stage[start] + stage[size]
        for start, size in (("x", "width"), ("y", "height"))
    )


def test_a_connection_is_refused_or_replaces_another_at_the_pointer_and_its_end_is_led_elsewhere(
    studio: Studio,
):
    studio.begin(five_steps())
    refusal, replacing = studio.page.locator(".refusal"), studio.page.locator(".replacing")
    studio.connect("load-data.table", "predict.model", let_go=False)
    expect(refusal).to_have_attribute("role", "alert")
    expect(refusal).to_contain_text(re.compile("model.*table", re.DOTALL))
    studio.shoot("refused")
    studio.page.mouse.up()
    expect(refusal).to_have_count(0)

    studio.connect("load-data.table", "predict.table", let_go=False)
    expect(replacing).to_contain_text("Split")
    assert refusal.count() == 0
    studio.page.mouse.up()
    replaced = [*WIRES[:2], *WIRES[3:], ("load-data.table", "predict.table")]
    wired(studio, replaced)

    studio.pull(
        end_of(studio, WIRES[1], "source"),
        studio.centre(studio.handle("load-data.table", "output")),
    )
    moved = [WIRES[0], ("load-data.table", "deep-forest.table"), *replaced[2:]]
    wired(studio, moved)
    studio.pull(
        end_of(studio, WIRES[4]), studio.on_stage(80, 560)
    )  # it springs back from empty ground
    expect(studio.page.locator(".react-flow__edge-path")).to_have_count(5)
    assert studio.page.locator(".quick-add").count() == 0

    studio.press("Control+z")
    wired(studio, replaced)
    studio.press("Control+z")
    wired(studio, WIRES)
    expect(studio.button("Undo")).to_be_disabled()


def test_nodes_are_dragged_on_the_grid_boxed_and_moved_by_keys(studio: Studio):
    studio.begin(five_steps())
    before = studio.document.layout
    still = {name: place for name, place in studio.places().items() if name != "evaluate"}
    x, y = studio.centre(studio.node("evaluate").locator(".node-title"))
    studio.pull((x, y), (x - 40, y + 100))
    after = studio.saved(lambda pipeline: pipeline.layout["evaluate"] != before["evaluate"]).layout[
        "evaluate"
    ]
    assert all(value % 16 == 0 for value in after)
    assert {name: place for name, place in studio.places().items() if name != "evaluate"} == still

    box = studio.box(studio.node("split"))
    studio.page.keyboard.down("Shift")
    studio.pull(studio.on_stage(20, 120), (box["x"] + 20, box["y"] + box["height"] + 10))
    studio.page.keyboard.up("Shift")
    selected(studio, "load-data", "split")
    studio.press("ArrowDown", times=3)
    studio.press("Shift+ArrowRight")
    moved = {name: (before[name][0] + 80, before[name][1] + 48) for name in ("load-data", "split")}
    studio.saved(lambda pipeline: pipeline.layout == {**before, "evaluate": after, **moved})
    studio.press("Control+z")
    studio.press("Control+z")
    studio.saved(lambda pipeline: pipeline.layout == before)


def test_nodes_are_copied_duplicated_deleted_and_brought_back_by_keys(studio: Studio):
    studio.begin(five_steps())
    studio.click("load-data")
    studio.click("split", modifiers=["Shift"])
    selected(studio, "load-data", "split")
    studio.press("Control+c")
    studio.press("Control+v")
    pasted = studio.saved(lambda pipeline: len(pipeline.nodes) == 7)
    assert ("load-data-2.table", "split-2.table") in wires_of(pasted)
    assert pasted.nodes["load-data-2"].params == {"source": "sample:wine"}
    studio.press("Control+d")
    studio.saved(lambda pipeline: len(pipeline.nodes) == 9)
    selected(studio, "load-data-3", "split-3")
    studio.press("Delete")
    studio.saved(lambda pipeline: pipeline.nodes.keys() == pasted.nodes.keys())
    studio.press("Control+z", times=2)
    studio.press("Control+Shift+z")
    studio.saved(lambda pipeline: len(pipeline.nodes) == 9)
    for key in ("c", "r"):  # with these, Streamlit would clear its cache and run anew
        studio.press(key)
    studio.button("Undo").click()
    studio.button("Undo").click()
    studio.saved(lambda pipeline: pipeline.nodes.keys() == five_steps().nodes.keys())
    assert studio.page.get_by_role("dialog").count() == 0

    (x1, y1), (x2, y2) = (
        studio.centre(studio.handle(end, side))
        for end, side in zip(WIRES[0], ("output", "input"), strict=True)
    )
    studio.page.mouse.click((x1 + x2) / 2, (y1 + y2) / 2)
    studio.press("Delete")
    wired(studio, WIRES[1:])


def test_nodes_are_searched_and_added_by_slash_double_click_a_loose_edge_and_a_drop_on_an_output(
    studio: Studio,
):
    studio.begin(five_steps())
    field = studio.page.locator(".quick-add input")
    studio.page.mouse.click(*studio.on_stage(80, 560))
    studio.press("/")
    studio.write(field, "neural")
    studio.press("Enter")
    studio.saved(lambda pipeline: "mlp" in pipeline.nodes)
    selected(studio, "mlp")
    studio.page.mouse.dblclick(*studio.on_stage(80, 560))
    studio.write(field, "sample")
    studio.press("Enter")
    studio.saved(lambda pipeline: "sample" in pipeline.nodes)
    studio.pull(
        studio.centre(studio.handle("evaluate.report", "output")), studio.on_stage(420, 600)
    )
    expect(studio.page.locator(".sylva-canvas").get_by_role("option").first).to_contain_text(
        "Compare"
    )
    studio.press("Enter")
    studio.saved(lambda pipeline: ("evaluate.report", "compare.reports") in wires_of(pipeline))

    stage = studio.box(studio.page.locator(".stage"))
    x, y = studio.centre(studio.handle("deep-forest.model", "output"))
    studio.drop("save-model", x - stage["x"], y - stage["y"])
    studio.saved(lambda pipeline: ("deep-forest.model", "save-model.model") in wires_of(pipeline))
    studio.page.get_by_label("Search nodes").fill("forest")
    found = studio.page.locator("[data-node-type]").evaluate_all(
        "items => items.map(item => item.dataset.nodeType)"
    )
    assert {"deep-forest", "random-forest"} <= {*found} and "load-data" not in found


def test_a_connection_is_drawn_by_keyboard_alone(studio: Studio):
    studio.begin(five_steps())
    studio.node("load-data").focus()
    studio.press("e")
    field, options = (
        studio.page.get_by_role("combobox", name="Connect"),
        studio.page.locator(".sylva-canvas").get_by_role("option"),
    )
    expect(field).to_be_focused()
    expect(options).to_have_count(3)
    expect(options.first).to_contain_text("Validation rows")  # free
    expect(options.nth(1)).to_contain_text("Predict")  # the nearest of those that are taken
    studio.press("ArrowDown")
    studio.press("ArrowDown")
    expect(options.nth(2)).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == options.nth(2).get_attribute("id")
    expect(options.nth(2)).to_contain_text("Deep forest: Training rows")
    studio.press("Enter")
    wired(studio, [WIRES[0], *WIRES[2:], ("load-data.table", "deep-forest.table")])
    expect(field).to_have_count(0)
    expect(studio.node("load-data")).to_be_focused()
    studio.press("e")
    studio.write(field, "forest")
    # Its training rows are connected; its validation rows need not be.
    expect(options).to_have_count(1)
    expect(options.first).to_contain_text("Validation rows")
    studio.press("Escape")
    expect(field).to_have_count(0)
    studio.press(
        "Enter"
    )  # the keys are the canvas's again: the step that has the focus is selected
    selected(studio, "load-data")


def test_a_note_is_written_and_stays_text(studio: Studio):
    studio.begin(five_steps())
    studio.button("Note").click()
    text = "<b>bold?</b> remember c and r"
    studio.write(studio.page.get_by_label("Note text"), text)
    studio.press("Escape")
    studio.saved(lambda pipeline: [note.text for note in pipeline.notes] == [text])
    expect(studio.page.locator(".note")).to_have_text(text)
    assert studio.page.locator(".note b").count() == 0
    studio.press("Delete")
    studio.saved(lambda pipeline: not pipeline.notes)


def test_a_long_pipeline_opens_at_its_start_is_walked_by_tab_and_is_the_same_after_a_page_switch(
    studio: Studio,
):
    studio.begin(many(12, 15))
    level = studio.button("Zoom to 100 %")
    expect(level).to_have_text("90 %")
    assert is_on_stage(studio, "split-0") and not is_on_stage(studio, "split-6")
    studio.node("split-0").focus()
    for _ in range(40):
        studio.press("Tab")
        if studio.node("split-6").evaluate("node => node.matches(':focus')"):
            break
    until(lambda: is_on_stage(studio, "split-6"), what="the node reached by Tab in view")
    studio.button("Fit").click()
    until(
        lambda: is_on_stage(studio, "split-0") and is_on_stage(studio, "split-11"),
        what="all in view",
    )
    studio.drop("mart", 300, 500)
    studio.saved(lambda pipeline: "mart" in pipeline.nodes)
    zoom = level.inner_text()
    studio.button("Zoom in").click()
    expect(level).not_to_have_text(zoom)
    zoom = level.inner_text()

    studio.page.get_by_role("link", name="Data").click()
    studio.page.wait_for_selector(".stage", state="detached")
    studio.page.get_by_role("link", name="Build").click()
    studio.page.wait_for_selector('.react-flow__node[data-id="mart"]')
    expect(level).to_have_text(zoom)
    studio.button("Undo").click()
    studio.saved(lambda pipeline: "mart" not in pipeline.nodes)


def test_three_hundred_nodes_open_at_their_beginning_and_one_is_dragged(studio: Studio):
    studio.begin(many(300, 15))
    expect(studio.page.locator(".react-flow__node")).to_have_count(300)
    assert is_on_stage(studio, "split-0") and not is_on_stage(studio, "split-299")
    studio.button("Fit").click()
    until(lambda: is_on_stage(studio, "split-299"), what="all in view")
    before = studio.document.layout
    x, y = studio.centre(studio.node("split-100"))
    studio.pull((x, y), (x + 60, y + 45))
    after = studio.saved(lambda pipeline: pipeline.layout != before).layout
    assert {name for name, place in after.items() if place != before[name]} == {"split-100"}


def test_hostile_names_are_text_on_the_canvas_in_the_list_and_at_their_output(studio: Studio):
    nodes = {
        "load": Node(type="load-data", params={"source": "sample:wine"}, label=SCRIPT),
        "sample": Node(type="sample", label=SCRIPT),
        "stranger": Node(type="no-such-type", label=SCRIPT),
    }
    studio.begin(
        Pipeline(
            name=SCRIPT,
            description=SCRIPT,
            nodes=nodes,
            edges=(),
            notes=(Note(text=SCRIPT, x=0, y=200),),
            layout={"load": (0, 0), "sample": (288, 0), "stranger": (576, 0)},
        )
    )
    expect(studio.node("sample").locator(".node-title")).to_have_text(SCRIPT)
    expect(studio.page.locator(".note")).to_have_text(SCRIPT)
    expect(studio.node("stranger")).to_contain_text("no-such-type")
    expect(studio.node("stranger").locator(".node-problems")).to_have_count(1)
    studio.choose("sample")
    studio.click("stranger")
    studio.press("Delete")
    studio.connect("load.table", "sample.table")
    studio.saved(lambda pipeline: len(pipeline.edges) == 1 and "stranger" not in pipeline.nodes)
    studio.click("sample", button="right")
    studio.page.get_by_role("menuitem", name="Run to here").click()
    studio.expect_states(load="finished", sample="finished")
    studio.look_at("sample.table")
    expect(studio.page.get_by_test_id("stDataFrame").first).to_be_visible()
    assert studio.page.locator(".sylva-canvas img, .sylva-canvas script").count() == 0
    assert studio.page.evaluate("window.hacked") is None
    studio.open()
    expect(studio.page.get_by_text(SCRIPT).first).to_be_visible()


def brightness(part: Any, of: str) -> float:
    """How bright a part's colour is as it is drawn, from 0 to 255."""
    drawn: float = part.evaluate(
        """(part, of) => {
            const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1});
            const context = canvas.getContext("2d");
            context.fillStyle = getComputedStyle(part)[of];
            context.fillRect(0, 0, 1, 1);
            const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
            return (red + green + blue) / 3;
        }""",
        of,
    )
    return drawn


def test_the_dark_theme_is_dark_everywhere(studio: Studio):
    studio.page.emulate_media(color_scheme="dark")
    studio.begin(five_steps())
    studio.choose("deep-forest")
    studio.shoot("dark")
    for part in (".stApp", ".stage .node", ".palette", ".sylva-canvas"):
        assert brightness(studio.page.locator(part).first, "backgroundColor") < 70, part
    for part in (".node-title", ".palette-item"):
        assert brightness(studio.page.locator(part).first, "color") > 180, part


OVERTAKEN = """async (address) => {
    const canvas = (await import(address)).default;
    const place = document.body.appendChild(document.createElement("div"));
    place.innerHTML = '<div class="sylva-canvas-root"></div>';
    const empty = {nodes: {}, edges: [], layout: {}, notes: [], groups: []};
    const data = {
        pipeline: "p", epoch: 1, document: empty, taken: null, types: {}, rules: {},
        categories: [], states: {}, problems: [], height: 300,
    };
    const end = canvas({parentElement: place, data, setStateValue() {}, setTriggerValue() {}});
    const drawn = () => new Promise((done) => setTimeout(
        () => done(place.querySelectorAll(".sylva-canvas").length), 200));
    const counts = [await drawn()];
    end();
    counts.push(await drawn());
    place.remove();
    end();
    counts.push(await drawn());
    return counts;
}"""


def test_a_rerun_that_was_overtaken_leaves_the_canvas_in_place(studio: Studio):
    """Streamlit ends the call of such a rerun; only a canvas that has left the page may go."""
    studio.begin(five_steps())
    [script] = (ROOT / "ui/studio/canvas/frontend_dist").glob("index-*.js")
    address = f"{studio.address}/_stcore/bidi-components/sylva-studio.canvas/{script.name}"
    assert studio.page.evaluate(OVERTAKEN, address) == [1, 1, 0]


def test_the_canvas_does_not_fade_while_python_works_and_has_an_overview_only_if_needed(
    studio: Studio,
):
    studio.begin(five_steps())
    home = studio.page.locator(".stElementContainer:has(.sylva-canvas)").first
    assert home.evaluate("home => home.style.getPropertyPriority('opacity')") == "important"
    overview = studio.page.locator(".react-flow__minimap")
    assert overview.count() == 0
    zoom_in = studio.button("Zoom in")
    studio.click_until(zoom_in, lambda: overview.count() == 1, "the overview")
    stage, drawn = studio.box(studio.page.locator(".stage")), studio.box(overview)
    assert drawn["x"] + drawn["width"] <= stage["x"], "it covers no node"
    studio.button("Fit").click()
    expect(overview).to_have_count(0)


PUT_INTO_TRANSFER = """text => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], "mine.json", {type: "application/json"}));
    return transfer;
}"""


def test_nodes_connect_themselves_are_renamed_bypassed_and_grouped_and_a_file_is_dropped(
    studio: Studio,
):
    studio.begin(chain(("load-data", {"source": "sample:wine"})))
    studio.click("load-data")
    selected(studio, "load-data")
    studio.page.locator('[data-node-type="split"]').dblclick()
    wired(studio, [("load-data.table", "split.table")])
    selected(studio, "split")
    plain = studio.document

    name = studio.page.locator(".title-field")
    studio.press("F2")
    studio.write(name, "Two parts")
    studio.press("Enter")
    studio.press("b")
    studio.saved(lambda pipeline: pipeline.nodes["split"].bypass)
    assert studio.document.nodes["split"].label == "Two parts"
    expect(studio.node("split")).to_contain_text("bypassed")

    studio.press("Control+a")
    studio.press("Control+g")
    studio.write(name, "Data")
    studio.press("Enter")
    group = Group(title="Data", nodes=("load-data", "split"))
    studio.saved(lambda pipeline: pipeline.groups == (group,))
    studio.button("Collapse group Data").click()
    studio.saved(lambda pipeline: pipeline.groups[0].collapsed)
    expect(studio.node("split")).to_have_count(0)
    studio.shoot("collapsed group")

    # Of the title, the group, the bypass and the name, too.
    studio.press("Control+z", times=5)
    studio.saved(lambda pipeline: pipeline == plain)
    expect(studio.node("split")).to_be_visible()
    studio.press("Control+Shift+z")
    studio.saved(lambda pipeline: pipeline.nodes["split"].label == "Two parts")

    before = studio.pipeline
    file = studio.page.evaluate_handle(PUT_INTO_TRANSFER, dumps(five_steps()))
    studio.page.locator(".stage").dispatch_event("drop", {"dataTransfer": file})
    until(lambda: studio.pipeline != before, what="the dropped pipeline")
    expect(studio.page.locator(".react-flow__node")).to_have_count(5)
    assert studio.document.nodes == five_steps().nodes
