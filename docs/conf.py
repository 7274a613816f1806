"""Sphinx configuration; built with ``-W -n``, so that a warning or a dead reference fails."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "webgpu-torch"
author = "webgpu-torch contributors"
copyright = "webgpu-torch contributors"
release = version_of("webgpu-torch")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
# Docstrings refer to PyTorch by its own names; building the documentation must not need the network to find them.
nitpick_ignore_regex = [("py:.*", r"torch(\..*)?")]

html_theme = "furo"
html_title = f"webgpu-torch {release}"
