"""The Sphinx extension: the reference's pages before the build reads, names of docstrings resolved, formulas, sources."""

from __future__ import annotations

import gc
import html
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from . import formulas, tables
from .pages import Pages, write
from .public_names import left_out
from .samples import Samples

logger = logging.getLogger(__name__)
#: bytes of a page
LARGEST = 300_000
#: what Sphinx writes into every row or name of a table and no style asks for: a quarter of a page of tables
_UNUSED = re.compile(
    r' class="row-(?:odd|even)"| title="webgpu_torch[^"]*"|(?<=class=")(?:xref py py-\w+ )?docutils (?=literal)| notranslate(?=">)'
)
#: words of annotations and docstrings that are other projects', and not worth a link
FOREIGN = re.compile(
    r"(numpy|pickle|matplotlib|collections|typing|contextlib|torch|multiprocessing)\b.*|Any|Callable|None|optional"
)


def generate(app: Sphinx) -> None:
    """Write the pages into ``reference`` beside the others, and sources where they are shown; warn of what an entry lacks."""
    _keep_what_is_loaded()
    samples = Samples()
    try:
        pages = Pages(samples)
    finally:
        samples.save()
    lacking = [f"{name}: no {part}" for part, names in pages.missing.items() for name in names]
    unlisted = [f"{name} is listed by its module and stands in no namespace of the reference" for name in left_out()]
    for line in (*samples.failed, *lacking, *unlisted):
        logger.warning(line)
    write(Path(app.srcdir) / "reference", pages.texts, ".rst")
    if app.builder.format == "html":
        write(Path(app.outdir) / "_static" / "sources", pages.scripts(), ".js")
    app.config.reference_targets = pages.targets  # type: ignore[attr-defined]


def _keep_what_is_loaded() -> None:
    """Let collections leave out the modules, and come seldom: going over them was a fifth of the build's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def resolve(app: Sphinx, env: Any, node: addnodes.pending_xref, contnode: nodes.Element) -> nodes.Element | None:
    """Lead a docstring's name to the public object: ``torch.relu``, an internal path, or the bare name."""
    if node.get("refdomain") != "py":
        return None
    wanted = node["reftarget"].lstrip(".~").removesuffix("()")
    own = ".".join(filter(None, (node.get("py:module"), wanted)))
    targets = app.config.reference_targets  # type: ignore[attr-defined]
    in_class = ".".join(filter(None, (node.get("py:module"), node.get("py:class"), wanted)))
    objects = env.domains["py"].objects
    last = wanted.rpartition(".")[2]
    for name in (in_class, own, wanted, f"webgpu_{wanted}", f"Tensor.{wanted}"):
        full = targets[name][1] if name in targets and name not in objects else name
        if full in objects:
            entry = objects[full]
            return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, full)
    if "." in wanted and any(last == each.rpartition(".")[2] for each in objects if each.startswith("webgpu_torch")):
        found = next(each for each in objects if each.rpartition(".")[2] == last)
        return make_refnode(
            app.builder, node["refdoc"], objects[found].docname, objects[found].node_id, contnode, found
        )
    return contnode if FOREIGN.fullmatch(wanted) or last in internal_names() else None


@cache
def internal_names() -> frozenset[str]:
    """Return the names that modules of this project and their classes define: shown without a link where not public."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("webgpu_torch"):
            found |= {name.rpartition(".")[2], *vars(module)}
            for each in list(vars(module).values()):
                if isinstance(each, type):
                    found |= {*dir(each), *getattr(each, "__annotations__", ())}
    return frozenset(found)


def as_pytorch(app: Sphinx, doctree: nodes.document) -> None:
    """Show ``torch.nn.`` before names where the module is ``webgpu_torch.nn``."""
    for node in doctree.findall(addnodes.desc_addname):
        text = node.astext()
        if text.startswith("webgpu_torch."):
            node.clear()
            node += nodes.Text(text.replace("webgpu_torch.", "torch.", 1))


def add_names(app: Sphinx, env: Any) -> None:
    """Put every object into the inventory under the name that PyTorch's users write, too; the search has it once."""
    objects = env.domains["py"].objects
    for name, entry in list(objects.items()):
        if name.startswith("webgpu_torch."):
            objects.setdefault(name.removeprefix("webgpu_"), entry._replace(aliased=True))


def list_entries(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put the sections and entries of a page of the reference beside it, as Sphinx does the sections of others."""
    if doctree is not None and page.startswith("reference/"):
        context["toc"] = contents_of(doctree)
        context["furo_hide_toc"] = context["toc"].count("<li>") < 2
        context["body"] = _UNUSED.sub("", context["body"])


def contents_of(node: nodes.Node) -> str:
    """Return nested lists of links to the sections, entries and members of a node; nothing where there are none."""
    items = list[str]()
    for child in node.children:
        if isinstance(child, nodes.section):
            items.append(f"<li>{_link(child, child[0].astext())}{contents_of(child)}</li>")
        elif isinstance(child, addnodes.desc):
            *signatures, content = child.children
            named = [each for each in signatures if isinstance(each, nodes.Element) and each["ids"]]
            # A name that is described twice is a place to go to only once.
            links = [
                _link(each, f"<code>{html.escape(next(each.findall(addnodes.desc_name)).astext())}</code>")
                for each in named
            ]  # fmt: skip
            items += [f"<li>{each}</li>" for each in links[:-1]]
            items += [f"<li>{each}{contents_of(content)}</li>" for each in links[-1:]]
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _link(node: nodes.Element, shown: str) -> str:
    return f'<a class="reference internal" href="#{node["ids"][0]}">{shown}</a>'


def refuse_large(app: Sphinx, exception: Exception | None) -> None:
    """Warn of pages that a phone would wait for."""
    for path in Path(app.outdir).rglob("*.html") if exception is None else ():
        if path.stat().st_size > LARGEST:
            logger.warning("%s has %d bytes, at most %d", path.name, path.stat().st_size, LARGEST)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.add_config_value("reference_targets", {}, "", dict)
    app.connect("builder-inited", generate)
    app.connect("missing-reference", resolve)
    app.connect("doctree-read", as_pytorch)
    app.connect("env-updated", add_names)
    app.connect("doctree-resolved", tables.load_rows)
    # After the theme, which hides the list of a page that has no sections.
    app.connect("html-page-context", list_entries, priority=600)
    app.connect("build-finished", refuse_large)
    app.add_html_math_renderer("mathml", (formulas.visit_math, None), (formulas.visit_math_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
