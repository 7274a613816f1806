"""Searches whose results depend on data, through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def nonzero(flags: Array) -> tuple[Array]:
    """Return the positions of flags that hold, in order."""
    return (np.flatnonzero(flags),)


ALGORITHMS = {"nonzero": nonzero}
