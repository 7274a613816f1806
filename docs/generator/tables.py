"""Long tables: the page has their heads and a field to filter by, and loads the rows, so that it stays small."""

from __future__ import annotations

import html
import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

#: shorter tables stay in their pages
MOST_ROWS = 100
#: so do those of fewer letters
MOST_LETTERS = 20_000


def load_rows(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put the rows of a page's long tables into scripts of their own."""
    if app.builder.format != "html" or docname.startswith("reference/"):
        return
    for number, table in enumerate(list(doctree.findall(nodes.table))):
        rows = [row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)]
        if len(rows) <= MOST_ROWS and len(table.astext()) <= MOST_LETTERS:
            continue
        name = f"{docname}-{number}"
        cells = [[_cell(entry) for entry in row.findall(nodes.entry)] for row in rows]
        path = Path(app.outdir) / "_static" / "tables" / f"{name}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"showRows({json.dumps(name)}, {json.dumps(cells, ensure_ascii=False)});\n", encoding="utf-8")
        heads = [_cell(entry) for head in table.findall(nodes.thead) for entry in head.findall(nodes.entry)]
        shown = "".join(f"<th>{each}</th>" for each in heads)
        text = (
            f'<div class="table-wrapper rows" data-rows="{name}"><label>Filter {len(rows)} rows: '
            f'<input type="search" aria-label="Filter the rows"></label> <span class="count"></span>'
            f'<div class="long"><table class="docutils"><thead><tr>{shown}</tr></thead><tbody></tbody></table></div></div>'
            "<noscript>The rows are loaded by a script.</noscript>"
        )
        table.replace_self(nodes.raw("", text, format="html"))


def _cell(entry: nodes.entry) -> str:
    found = []
    for node in entry.findall(nodes.Text):
        text = html.escape(node.astext())
        found.append(f"<code>{text}</code>" if isinstance(node.parent, nodes.literal) else text)
    return "".join(found)
