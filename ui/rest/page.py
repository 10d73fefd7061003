"""The page of a served model: its columns, how to call it, and a form to try it.

The page is the same for every model and holds nothing of it. It asks the service for the schema, with the token if
there is one, and puts names and values into the page as text only. It loads nothing from anywhere else.
"""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, currentColor 22%, transparent);
  --soft: color-mix(in srgb, currentColor 7%, transparent); --accent: #2e7d4f; }
@media (prefers-color-scheme: dark) { :root { --accent: #6cc795; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; } a { color: var(--accent); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; } th { background: var(--soft); font-weight: 600; }
td { overflow-wrap: break-word; max-width: 26rem; } td:nth-child(2) { white-space: nowrap; }
pre { background: var(--soft); border-radius: .5rem; padding: .8rem; overflow-x: auto; margin: .5rem 0; }
code, pre, textarea { font: 14px/1.45 ui-monospace, monospace; }
textarea, input { width: 100%; padding: .5rem; border: 1px solid var(--line); border-radius: .5rem;
  background: transparent; color: inherit; }
textarea { min-height: 14rem; resize: vertical; }
button { font: inherit; margin: .6rem .5rem .2rem 0; padding: .4rem 1.1rem; border-radius: .5rem;
  border: 1px solid var(--accent); background: var(--accent); color: Canvas; cursor: pointer; }
.note { opacity: .75; } [hidden] { display: none; }
"""

SCRIPT = """
"use strict";
const el = id => document.getElementById(id);
const headers = () => el("token").value ? {"Authorization": "Bearer " + el("token").value} : {};
function cell(line, text) { const made = document.createElement("td"); made.textContent = text; line.append(made); }
function holds(column) {
  const extra = column.missing_allowed ? ", or null" : "";
  if (column.kind === "category") {
    const all = column.categories, rest = all.length > 12 ? ", … " + all.length + " in all" : "";
    return "one of: " + all.slice(0, 12).join(", ") + rest + extra;
  }
  return {number: "a number", bool: "true or false", time: "a time as text"}[column.kind] + extra;
}
function show(schema) {
  document.title = schema.model;
  el("name").textContent = schema.model;
  el("about").textContent = schema.title + ", trained on " + schema.trained_on_rows.toLocaleString("en") +
    " rows. Tells apart: " + schema.classes.join(", ") + ".";
  const row = {};
  el("columns").replaceChildren(...schema.columns.map(column => {
    const line = document.createElement("tr");
    row[column.name] = column.example;
    [column.name, column.kind, holds(column), JSON.stringify(column.example)].forEach(text => cell(line, text));
    return line;
  }));
  const body = JSON.stringify({rows: [row]});
  el("rows").value = JSON.stringify({rows: [row]}, null, 1);
  const secret = el("token").value ? ' -H "Authorization: Bearer $TOKEN"' : "";
  el("curl").textContent = "curl " + location.origin + "/predict -H 'Content-Type: application/json'" + secret +
    " \\\\\\n  -d '" + body.replaceAll("'", "'\\\\''") + "'";
  el("limit").textContent = "Up to " + schema.batch_limit.toLocaleString("en") + " rows a request.";
  el("loaded").hidden = false;
}
async function load() {
  const answer = await fetch("schema", {headers: headers()});
  el("locked").hidden = answer.status !== 401;
  el("wrong").hidden = !(answer.status === 401 && el("token").value);
  if (answer.ok) show(await answer.json());
}
async function ask() {
  el("answer").textContent = "…";
  const began = performance.now();
  try {
    const answer = await fetch("predict", {method: "POST", body: el("rows").value,
      headers: {"Content-Type": "application/json", ...headers()}});
    const text = JSON.stringify(await answer.json(), null, 1);
    const took = Math.round(performance.now() - began);
    el("answer").textContent = answer.status + ", " + took + " ms\\n" + text;
  } catch (error) { el("answer").textContent = String(error); }
}
el("unlock").addEventListener("submit", event => { event.preventDefault(); load(); });
el("ask").addEventListener("click", ask);
load();
"""

PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Model</title><style>{STYLE}</style></head><body>
<h1 id="name">Model</h1>
<form id="unlock"><div id="locked" hidden><p>This service asks for a token.</p>
<input id="token" type="password" placeholder="Token" aria-label="Token" autocomplete="off">
<p id="wrong" hidden>That is not the token.</p><button>Open</button></div></form>
<main id="loaded" hidden><p id="about"></p>
<h2>Columns of a row</h2>
<div class="scroll"><table><thead><tr><th>Column</th><th>Kind</th><th>Holds</th><th>Example</th></tr></thead>
<tbody id="columns"></tbody></table></div>
<p class="note">Further columns do no harm. A category never seen in training counts as missing.</p>
<h2>Call it</h2><pre id="curl"></pre>
<p class="note"><span id="limit"></span> The answer holds the prediction and the probability of each class for
every row. Machines read <a href="openapi.json">openapi.json</a> and <a href="schema">schema</a>.</p>
<h2>Try it</h2><textarea id="rows" spellcheck="false" aria-label="Request"></textarea>
<button id="ask" type="button">Predict</button><pre id="answer" aria-live="polite">The answer comes here.</pre></main>
<script>{SCRIPT}</script></body></html>
"""


def _digest(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {_digest(STYLE)}; script-src {_digest(SCRIPT)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Only what stands in the page may act, and it may talk to the service only."""
