"""The library as a static site: a playground, the conformance page and the benchmark page, run by the visitor's browser."""

from __future__ import annotations

from .page import fetch_model as fetch_model
from .page import plot as plot
from .page import show as show

__all__ = ["fetch_model", "plot", "show"]
