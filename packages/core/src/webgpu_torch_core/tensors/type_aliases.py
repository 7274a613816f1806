"""Names of the argument types that many operations share; for annotations only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..record.devices import device

Number: TypeAlias = bool | int | float
"""A Python number."""
Dimensions: TypeAlias = int | Sequence[int] | None
"""One dimension, several, or None for all."""
DeviceLike: TypeAlias = device | str | int | None
"""A device, its name, or None for the default."""
