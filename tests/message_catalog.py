"""Every text of the product that a person may read, taken from its source.

``catalog(root)`` is what ``tests/messages.txt`` must hold: each module's messages, one a line,
in the order of the source. A literal counts as a message if it

- has two words or more, or is one capitalised word such as a label ("Accuracy"), or
- is an argument that is always shown, whatever its text: the label of a button, a title, a help;

and is not code: SQL, CSS, HTML tags, a regular expression, a path. Placeholders of f-strings stay
as they are in the source, so that a reviewer sees what is put in.

- ``python_messages``  the messages of one Python module
- ``script_messages``  the messages of one script of the front end
- ``catalog``  the messages of all modules
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGES = ("deepforest", "engine", "nodes", "sylva", "ui")
SCRIPTS = (
    "ui/studio/canvas/frontend/src/**/*.js",
    "ui/studio/canvas/frontend/src/**/*.jsx",
    "ui/studio/assets/*.js",
    "ui/rest/page.html",
)

SHOWN_KEYWORDS = {
    "title",
    "description",
    "help",
    "label",
    "placeholder",
    "summary",
    "category",
    "text",
    "caption",
}
SHOWN_CALLS = {
    "button", "caption", "checkbox", "code", "download_button", "error", "expander",
    "file_uploader", "form_submit_button", "header", "info", "link_button", "markdown",
    "menu_button", "metric", "multiselect", "number_input", "page_link", "pills", "popover",
    "radio", "segmented_control", "selectbox", "slider", "spinner", "status", "subheader",
    "success", "tabs", "text", "text_area", "text_input", "toast", "toggle", "warning", "write",
}  # fmt: skip
"""Functions of Streamlit whose first argument is shown."""

NOT_SHOWN_CALLS = {
    "TypeVar",
    "compile",
    "execute",
    "executescript",
    "findall",
    "fullmatch",
    "search",
    "sub",
}
"""Functions whose arguments are names, patterns or SQL."""

TWO_WORDS = re.compile(r"[^\W\d_]{2,}[^\w\s]*\s+\S*\w")
LABEL = re.compile(r"[A-Z][a-z]{2,}…?")
LETTERS = re.compile(r"[^\W\d_]{2,}")
PLACEHOLDER = re.compile(r"\{.*?\}")
MARKUP = re.compile(r"<[^<>]*>|&\w+;")
CODE = re.compile(
    # SQL
    r"\s*(SELECT|INSERT|CREATE|UPDATE|DELETE|PRAGMA|ALTER|WHERE|ORDER BY|FROM|AND|CASE WHEN)\s"
    r"|(with|for|if) .*:$|(from|import) [\w.]+( (as|import) .*)?$|.* if \S+ else "  # Python
    r"|.*\dpx\b|default-src |[\w., -]+\{\s|.*[;{]\s*[\w-]+: [^;]*;"  # styles
    r"|[\w.]+\[[\w., |]+\]$",  # annotations
    re.DOTALL,
)


def catalog(root: Path) -> str:
    """Return the messages of all modules below ``root``, as ``tests/messages.txt`` holds them."""
    parts = []
    for path in sorted(_sources(root)):
        text = path.read_text(encoding="utf-8")
        messages = python_messages(text) if path.suffix == ".py" else script_messages(text)
        if messages:
            lines = [f"  {message}" for message in messages]
            parts.append("\n".join([path.relative_to(root).as_posix(), *lines]))
    return "\n\n".join(parts) + "\n"


def _sources(root: Path) -> Iterator[Path]:
    for package in PACKAGES:
        yield from (
            path for path in (root / package).rglob("*.py") if "node_modules" not in path.parts
        )
    for pattern in SCRIPTS:
        yield from root.glob(pattern)


def python_messages(source: str) -> list[str]:
    """Return the messages of a Python module, in the order of the source, each once."""
    reader = _Reader()
    reader.visit(ast.parse(source))
    return _tidy(reader.messages)


class _Reader(ast.NodeVisitor):
    """Collects messages. Arguments that are always shown are visited before the rest of a call."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Take the docstring of a command: it is its help."""
        if _is_command(node):
            self._add(ast.get_docstring(node) or "")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Pass over docstrings."""
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Pass over ``__all__`` and its like: they name classes."""
        if not any(
            isinstance(each, ast.Name) and each.id.startswith("__") for each in node.targets
        ):
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Pass over assertions: they speak to programmers."""

    def visit_Call(self, node: ast.Call) -> None:
        """Take what is shown for sure, whatever it is; leave out what never is."""
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if name in NOT_SHOWN_CALLS:
            return
        self.visit(node.func)
        for index, argument in enumerate(node.args):
            self._take(argument, shown=index == 0 and name in SHOWN_CALLS)
        for keyword in node.keywords:
            self._take(keyword.value, shown=keyword.arg in SHOWN_KEYWORDS)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Take a literal if it reads like a message."""
        if isinstance(node.value, str) and _is_message(node.value):
            self._add(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Take an f-string if its own words read like a message."""
        if _is_message(_words(node)):
            self._add(_with_placeholders(node))
            return
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def _take(self, argument: ast.expr, *, shown: bool) -> None:
        text = _text(argument)
        if shown and LETTERS.search(MARKUP.sub(" ", text)):
            self._add(_with_placeholders(argument))
        else:
            self.visit(argument)

    def _add(self, message: str) -> None:
        """Add a message; of a whole page, its texts."""
        texts = MARKUP.split(message) if message.startswith("<!doctype") else [message]
        self.messages += [text for text in texts if LETTERS.search(PLACEHOLDER.sub("", text))]


def _is_command(function: ast.FunctionDef) -> bool:
    """Is the function one that Typer makes a command of?"""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return (
        "command(" in decorators
        or ".callback(" in decorators
        or "typer.Option" in ast.unparse(function.args)
    )


def _text(argument: ast.expr) -> str:
    if isinstance(argument, ast.JoinedStr):
        return _words(argument)
    return (
        argument.value
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        else ""
    )


def _words(string: ast.JoinedStr) -> str:
    """Return an f-string with every value as one neutral word."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "0" for part in string.values
    )


def _with_placeholders(string: ast.expr) -> str:
    if not isinstance(string, ast.JoinedStr):
        return _text(string)
    parts = [
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
        for part in string.values
        if isinstance(part, ast.Constant | ast.FormattedValue)
    ]
    return "".join(parts)


def _is_message(text: str) -> bool:
    words = MARKUP.sub(" ", text)
    if CODE.match(words):
        return False
    return bool(TWO_WORDS.search(words) or LABEL.fullmatch(words))


SCRIPT_TOKEN = re.compile(
    r"/\*.*?\*/|(?<!:)//[^\n]*"  # comments
    r'|(?P<before>[\w-]*|[!=]==|case)\s*[=:]?\s*\{?(?P<text>"(?:[^"\\\n]|\\.)*"|`(?:[^`\\\n]|\\.)*`)'
    r"|>\s*(?P<shown>[^<>{}=;()&|]+?)\s*<",  # the text of an element
    re.DOTALL,
)
SHOWN_ATTRIBUTES = {"title", "label", "aria-label", "placeholder", "text", "alt"}
NOT_SHOWN = {"className", "d", "points", "viewBox", "transform", "style", "case", "===", "!=="}
"""What stands before a literal that is not shown: an attribute, or a comparison."""


def script_messages(source: str) -> list[str]:
    """Return the messages of a front-end script: its literals and the texts of its elements."""
    messages = []
    for token in SCRIPT_TOKEN.finditer(source):
        if token["shown"] and LETTERS.search(token["shown"]):
            messages.append(token["shown"])
        if token["text"] and token["before"] not in NOT_SHOWN:
            text = token["text"][1:-1].replace("${", "{")
            if _is_message(text) or (token["before"] in SHOWN_ATTRIBUTES and LETTERS.search(text)):
                messages.append(text)
    return _tidy(messages)


def _tidy(messages: Iterable[str]) -> list[str]:
    """Return each message once, on one line."""
    lines = (message.strip().replace("\n", "\\n") for message in messages)
    return [line for line in dict.fromkeys(lines) if line]
