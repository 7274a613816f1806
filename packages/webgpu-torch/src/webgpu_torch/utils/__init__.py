"""Utilities, as ``torch.utils``."""

from . import data as data
