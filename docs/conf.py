"""Sphinx configuration; built with ``-W -n``, so that a warning or a dead reference fails."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "webgpu-torch"
author = "webgpu-torch contributors"
copyright = "webgpu-torch contributors"
release = version_of("webgpu-torch")
version = release

extensions = ["myst_parser", "sphinx_copybutton", "generator.extension", "generator.executed"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns: list[str] = []
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Docstrings refer to PyTorch by its own names; building the documentation must not need the network to find them.
nitpick_ignore_regex = [("py:.*", r"torch(\..*)?")]
# Sphinx would copy every entry of the book for the navigation of every page; the extension lists those of a page itself.
toc_object_entries = False
python_maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"webgpu-torch {release}"
html_math_renderer = "mathml"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_show_search_summary = False
html_search_scorer = str(Path(__file__).parent / "_static" / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. |\$ |\(Pdb\) "
copybutton_prompt_is_regexp = True
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1d4d73",
        "color-brand-content": "#23648f",
        "color-brand-visited": "#5b4a8a",
    },
    "dark_css_variables": {
        "color-brand-primary": "#f2a33c",
        "color-brand-content": "#8fc1e6",
        "color-brand-visited": "#b9a5e8",
    },
}
# The index has a page per letter.
html_split_index = True
