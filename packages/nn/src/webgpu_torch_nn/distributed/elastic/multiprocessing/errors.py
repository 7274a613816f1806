"""Marking the main function of a program, as ``torch.distributed.elastic.multiprocessing.errors``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

__all__ = ["record"]


def record(fn: Function, error_handler: object = None) -> Function:
    """Return the function as it is: its exceptions reach the launcher, which runs it in its own process or waits for MPI."""
    return fn
