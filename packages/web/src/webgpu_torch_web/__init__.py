"""The library in web pages, and networks as folders of static files: :func:`export` writes one that runs in browsers and
Node without Python.
"""

from __future__ import annotations

from .exporting.errors import ExportError as ExportError
from .exporting.functions import export as export
from .exporting.functions import export_functions as export_functions
from .exporting.images import export_images as export_images
from .exporting.text import export_text as export_text

__all__ = ["ExportError", "export", "export_functions", "export_images", "export_text"]
