"""The backward pass of one call of an element-wise operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import dtype, float32
from ...ir.layouts import Shape
from ...tensors.saved_tensors import SavedTensor

if TYPE_CHECKING:
    from ...tensors.tensor import Tensor
    from .call import Elementwise

#: an operand's number, the operation computing its gradient, and the operands which that needs; None for the operation where
#: the gradient is what arrives
Gradient = tuple[int, "Elementwise | None", tuple[int, ...]]


#: PyTorch's names of operands
_OPERANDS = {"self": 0, "other": 1, "exponent": 1}


class Backward:
    """Computes the gradients of operands from what arrives at their result.

    Args:
        gradients: what computes the gradient of each operand that has one.
        kinds: the shape and the type of each operand, None for numbers.
        saved: the operands that the gradients need, by their numbers: kept tensors, or numbers.
        extras: the call's options.
    """

    __slots__ = ("extras", "gradients", "kinds", "saved")

    def __init__(
        self,
        gradients: Sequence[Gradient],
        kinds: Sequence[tuple[Shape, dtype] | None],
        saved: dict[int, Any],
        extras: tuple[object, ...],
    ) -> None:
        self.gradients = gradients
        self.kinds = kinds
        self.saved = saved
        self.extras = extras

    @property
    def keeps_tensors(self) -> bool:
        """Whether there is anything that a second pass would miss."""
        return any(hasattr(each, "unpack") for each in self.saved.values())

    def named(self, name: str) -> SavedTensor | None:
        """Return an operand that was kept, by the name that PyTorch's nodes have for it; None if there is none."""
        kept = self.saved.get(_OPERANDS.get(name, -1))
        return kept if isinstance(kept, SavedTensor) else None

    def __call__(self, grad: Tensor) -> list[Tensor | None]:
        """Return the gradient of each operand."""
        # A circle: that module imports element-wise operations.
        from ..reduction.reductions import sum_to_size

        saved = self.saved
        # Operands that the gradient does not need are not kept.
        parts: list[Any] = [None] * len(self.kinds)
        for index, operation, used in self.gradients:
            shape, kind = self.kinds[index]  # type: ignore[misc]
            same = grad._layout.shape == shape
            # A sum over broadcast dimensions rounds once, not once per term.
            part: Any = grad if same or kind.itemsize != 2 else grad.to(float32)  # type: ignore[attr-defined]
            if operation is not None:
                values = [saved[each] for each in used]
                part = operation.call(
                    (part, *[each.unpack() if hasattr(each, "unpack") else each for each in values]), self.extras
                )
            if part._layout.shape != shape:
                part = sum_to_size(part, shape)
            parts[index] = part if part.dtype is kind else part.to(kind)
        return parts


__all__ = ["Backward", "Gradient"]
