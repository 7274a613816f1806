"""Refusals of ``out`` by what writes results, which knows not whose they are: calls say which function it was."""

from __future__ import annotations


class RefusedOutput(Exception):
    """A refusal that is to be told with the name of the function; its subclasses have the type that users see as a base."""


class RefusedOutputType(RefusedOutput, TypeError):
    """``out`` is no tensor, or no tuple of them."""


class RefusedGradient(RefusedOutput, RuntimeError):
    """Gradients of what is written into ``out`` are asked for."""


__all__ = ["RefusedGradient", "RefusedOutput", "RefusedOutputType"]
