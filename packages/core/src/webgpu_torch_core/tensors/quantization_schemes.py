"""How integers stand for numbers: ``torch.qscheme``, of which there are five."""

from __future__ import annotations


class qscheme:
    """How a scale and a zero point make numbers of integers: one of each for a tensor, or for each position of a dimension."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


#: one scale and one zero point
per_tensor_affine = qscheme("per_tensor_affine")
#: one scale, and zero in the middle
per_tensor_symmetric = qscheme("per_tensor_symmetric")
#: a scale and a zero point for each position of a dimension
per_channel_affine = qscheme("per_channel_affine")
#: a scale for each position of a dimension, and zero in the middle
per_channel_symmetric = qscheme("per_channel_symmetric")
#: a scale and what is subtracted, no integer, for each position of a dimension
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

SCHEMES = (
    per_tensor_affine, per_tensor_symmetric, per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams,
)  # fmt: skip
