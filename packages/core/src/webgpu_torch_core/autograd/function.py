"""Custom differentiable functions: ``torch.autograd.Function``."""

from __future__ import annotations

from typing import Any

from .grad_mode import recording
from .node import Node


class FunctionContext:
    """What ``forward`` and ``backward`` of a :class:`Function` share."""

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        self._materialize = True
        self.needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors for ``backward``; in-place changes to them until then are detected."""
        self._saved = tuple(None if each is None else each._save() for each in tensors)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to :meth:`save_for_backward`.

        Raises:
            RuntimeError: one was modified in place since.
        """
        return tuple(None if each is None else each.unpack() for each in self._saved)

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare outputs that have no gradient."""
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare inputs that ``forward`` changed in place."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether missing output gradients arrive as zeros (the default) or as None."""
        self._materialize = value


class Function:
    """Base of custom differentiable functions: write static ``forward(ctx, …)`` and ``backward(ctx, *grads)``, call
    ``apply``.

    A class with ``setup_context(ctx, inputs, output)`` has ``forward`` without ``ctx``.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of ``forward``."""
        raise NotImplementedError("You must implement the backward for your custom autograd.Function to use it.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record ``backward``."""
        from ..tensor import Tensor

        context = FunctionContext()
        context.needs_input_grad = tuple(isinstance(each, Tensor) and each.requires_grad for each in args)
        records = recording.enabled and any(context.needs_input_grad)
        saved, recording.enabled = recording.enabled, False
        try:
            if "setup_context" in dir(cls):
                result = cls.forward(*args, **kwargs)
                cls.setup_context(context, args, result)  # type: ignore[attr-defined]
            else:
                result = cls.forward(context, *args, **kwargs)
        finally:
            recording.enabled = saved
        outputs = result if isinstance(result, tuple) else (result,)
        if records:
            outputs = cls._attach(context, args, outputs)
        return outputs if isinstance(result, tuple) else outputs[0]

    @classmethod
    def _attach(cls, context: FunctionContext, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        from ..tensor import Tensor

        edges = tuple(each._gradient_edge() if isinstance(each, Tensor) else None for each in args)
        templates = tuple(
            (each.shape, each.dtype, each.device) if isinstance(each, Tensor) else None for each in outputs
        )

        def run_backward(*gradients: Any) -> tuple[Any, ...]:
            from ..ops.creation import zeros

            if context._materialize:
                gradients = tuple(
                    zeros(*template[0], dtype=template[1], device=template[2]) if each is None and template else each
                    for each, template in zip(gradients, templates, strict=True)
                )
            parts = cls.backward(context, *gradients)
            return parts if isinstance(parts, tuple) else (parts,)

        node = Node(f"{cls.__name__}Backward", edges, run_backward, len(outputs))
        result = []
        skipped = {id(each) for each in context._non_differentiable}
        given = {id(each) for each in args}
        for number, each in enumerate(outputs):
            if (
                isinstance(each, Tensor)
                and id(each) not in skipped
                and (each.dtype.is_floating_point or each.dtype.is_complex)
            ):
                changed = id(each) in given and all(each is not dirty for dirty in context._dirty)
                each = each.view_as(each) if changed else each
                each._set_gradient(node, number)
            result.append(each)
        return tuple(result)


def once_differentiable(function: Any) -> Any:
    """Mark a ``backward`` whose result cannot be differentiated again."""

    def wrapped(ctx: Any, *gradients: Any) -> Any:
        saved, recording.enabled = recording.enabled, False
        try:
            return function(ctx, *gradients)
        finally:
            recording.enabled = saved

    return wrapped
