"""The backward pass of one call of an element-wise operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import dtype, float32
from ...ir.layouts import Shape
from ...tensors.saved_tensors import SavedOperand, SavedTensor, ShownResult

if TYPE_CHECKING:
    from ...tensors.tensor import Tensor
    from .call import Elementwise

#: an operand's number, the operation computing its gradient, and the operands which that needs; None for the operation where
#: the gradient is what arrives
Gradient = tuple[int, "Elementwise | None", tuple[int, ...]]


#: PyTorch's names of operands
_OPERANDS = {"self": 0, "result": 0, "other": 1, "exponent": 1}


class Backward:
    """Computes the gradients of operands from what arrives at their result.

    Args:
        gradients: what computes the gradient of each operand that has one.
        kinds: the shape and the type of each operand, None for numbers.
        saved: the operands that the gradients need, by their numbers: kept tensors, or numbers.
        extras: the call's options.
        operation: what was called, where PyTorch's node keeps the result.
    """

    __slots__ = ("extras", "gradients", "kinds", "operation", "saved")

    def __init__(
        self,
        gradients: Sequence[Gradient],
        kinds: Sequence[tuple[Shape, dtype] | None],
        saved: dict[int, Any],
        extras: tuple[object, ...],
        operation: Elementwise | None = None,
    ) -> None:
        self.gradients = gradients
        self.kinds = kinds
        self.saved = saved
        self.extras = extras
        self.operation = operation

    @property
    def keeps_tensors(self) -> bool:
        """Whether there is anything that a second pass would miss."""
        # A number beside one other operand PyTorch keeps as a tensor.
        return any(hasattr(each, "unpack") for each in self.saved.values()) or (
            len(self.kinds) == 2 and bool(self.saved)
        )

    def named(self, name: str) -> SavedTensor | ShownResult | None:
        """Return what was kept by the name that PyTorch's nodes have for it; None if there is nothing."""
        kept, operation = self.saved.get(_OPERANDS.get(name, -1)), self.operation
        if name == "result" and operation is not None and isinstance(kept, SavedOperand):
            if kept.shown is None:
                kept.shown = ShownResult(kept, lambda operand: operation.call((operand,), self.extras))
            return kept.shown
        return kept if isinstance(kept, SavedTensor) else None

    def __call__(self, grad: Tensor) -> list[Tensor | None]:
        """Return the gradient of each operand."""
        # Each once: what hooks have packed is not unpacked twice.
        saved = {number: each.unpack() if hasattr(each, "unpack") else each for number, each in self.saved.items()}
        # Operands that the gradient does not need are not kept.
        parts: list[Any] = [None] * len(self.kinds)
        for index, operation, used in self.gradients:
            shape, kind = self.kinds[index]  # type: ignore[misc]
            same = grad._layout.shape == shape
            # A sum over broadcast dimensions rounds once, not once per term.
            part: Any = grad if same or kind.itemsize != 2 else grad.to(float32)  # type: ignore[attr-defined]
            if operation is not None:
                part = operation.call((part, *[saved[each] for each in used]), self.extras)
            if part._layout.shape != shape:
                # A circle: that module imports element-wise operations.
                from ..reduction.reductions import sum_to_size

                part = sum_to_size(part, shape)
            parts[index] = part if part._dtype is kind else part.to(kind)
        return parts
