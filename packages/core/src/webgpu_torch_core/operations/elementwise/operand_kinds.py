"""What definitions ask about their operands."""

from __future__ import annotations

from ...ir.expression import Expression


def is_integer(x: object) -> bool:
    """Return whether a scalar (traced or a plain number) is an integer or boolean."""
    return x.dtype.category < 2 if isinstance(x, Expression) else isinstance(x, int)
