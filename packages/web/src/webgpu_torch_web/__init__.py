"""The library in web pages."""

from __future__ import annotations
