"""Passes over graphs."""

from . import shape_prop as shape_prop
from . import split_module as split_module
