"""Passes that PyTorch calls experimental."""

from . import optimization as optimization
