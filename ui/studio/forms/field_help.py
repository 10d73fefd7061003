"""Show the help of a field beside it, while it has the keyboard or the mouse is on its label.

Streamlit's own help is a button in front of each field, which takes a Tab stop, and its tooltip
covers the field. This help stands beside the panel; screen readers read it with the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ui.studio.streamlit_compat import component

ASSETS = Path(__file__).parents[1] / "assets"


def draw_help(helps: Mapping[str, str], key: str) -> None:
    """Show each text beside the widget of its key; ``key`` names the form on the page."""
    draw = component(
        "sylva-field-help",
        html='<div class="field-help" popover="manual"></div>',
        js=_asset("field_help.js"),
        css=_asset("field_help.css"),
        # In the document itself: a field cannot refer to a text in a shadow tree.
        isolate_styles=False,
    )
    by_class = {css_class(widget): text for widget, text in helps.items() if text}
    draw(key=f"field-help/{key}", data=by_class)


def css_class(key: str) -> str:
    """Return the class that Streamlit gives the element of a widget."""
    return f"st-key-{re.sub('[^a-zA-Z0-9_-]', '-', key.strip())}"


@cache
def _asset(name: str) -> str:
    """Return the text of a file beside the style of the studio."""
    return (ASSETS / name).read_text(encoding="utf-8")
