"""The type that an operation on tensors and numbers computes in."""

from __future__ import annotations

from ...ir.dtypes import bool_, dtype, dtype_of_number, int64, promote_types
from ...record.context import default_float
from ...tensors.tensor import Tensor


def result_type(*operands: object) -> dtype:
    """Return the type an operation on these tensors and numbers computes in, as :func:`torch.result_type`.

    Tensors with dimensions come first, then 0-d tensors, then numbers; a lower class only counts when its category
    (bool, integer, float, complex) is higher.
    """
    best: list[dtype | None] = [None, None, None]
    for each in operands:
        if isinstance(each, Tensor):
            rank, kind = (0 if each._layout.ndim else 1), each.dtype
        else:
            rank, kind = 2, dtype_of_number(each, default_float[0])
        known = best[rank]
        if known is None or known is bool_:
            best[rank] = kind
        elif kind is not bool_:
            # Conditions are operands, too: they change no type, not even one that is promoted with no other.
            best[rank] = promote_types(known, kind)
    result: dtype | None = None
    for kind in best:
        if kind is not None and (result is None or kind.category > result.category):
            # Of a complex number beside floats only that it is complex counts.
            result = result.to_complex() if result is not None and result.category == 2 else kind
    return result if result is not None else int64
