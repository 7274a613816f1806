"""Sphinx configuration."""

project = "webgpu-torch"
copyright = "webgpu-torch contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
autodoc_typehints = "none"
nitpick_ignore_regex = [("py:.*", ".*")]
