"""Tensors that hold another one, which has their values and takes part in graphs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeAlias

from webgpu_torch_core import Size, Tensor
from webgpu_torch_core.dispatch.overrides import PATHS, DisableTorchFunctionSubclass

Answer: TypeAlias = Any


class HoldingTensor(Tensor):
    """A tensor of the values of another one, which stand at places of its own; gradients are those of the values."""

    _held: Tensor
    _sizes: Size

    #: whether ``torch.overrides.has_torch_function`` is true of them: of classes that PyTorch writes in Python
    overrides_in_pytorch = False

    @classmethod
    def _made(cls, values: Tensor, **own: Answer) -> Self:
        made: Any = cls._from_storage(values._storage, values._layout, values.dtype, values.device)
        # Assigned past the class's own attributes, which ask the values.
        vars(made).update(own, _held=values)
        return made

    def _with(self, values: Tensor) -> Self:
        """Return the tensor with other values at the same places."""
        raise NotImplementedError

    @staticmethod
    def _answer(func: Callable[..., Answer], path: str, args: Answer, kwargs: Answer) -> Answer:
        """Return what a public function gives with such a tensor among its arguments."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Answer], types: object, args: Answer = (), kwargs: Answer = None
    ) -> Answer:
        """Answer a call with such a tensor among its arguments; one without a public name is made as it is."""
        path = PATHS.get(func, "")
        if not path:
            with DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        return cls._answer(func, path, args, kwargs or {})

    # What they are

    @property
    def shape(self) -> Size:  # type: ignore[override]
        """The sizes."""
        return self._sizes

    @property
    def ndim(self) -> int:  # type: ignore[override]
        """The number of dimensions."""
        return len(self._sizes)

    @property
    def requires_grad(self) -> bool:  # type: ignore[override]
        """Whether the values take part in a graph."""
        return self._held.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._held.requires_grad = value

    @property
    def grad_fn(self) -> Answer:
        """What computed the values."""
        return self._held.grad_fn

    @property
    def is_leaf(self) -> bool:  # type: ignore[override]
        """Whether nothing computed the values."""
        return self._held.is_leaf

    @property
    def grad(self) -> Self | None:  # type: ignore[override]
        """The gradient, at the same places."""
        found = self._held.grad
        return None if found is None else self._as_gradient(found)

    @grad.setter
    def grad(self, value: Self | None) -> None:
        self._held.grad = None if value is None else value._held

    def _gradient_edge(self) -> Answer:
        return self._held._gradient_edge()

    def _accumulate_grad(self, gradient: Tensor, alone: bool = False) -> None:
        self._held._accumulate_grad(gradient, alone)

    def _as_gradient(self, found: Tensor) -> Self:
        return self._with(found)

    @property
    def data(self) -> Self:  # type: ignore[override]
        """The tensor without its history; values written into it are seen in this one."""
        return self._with(self._held.data)

    @data.setter
    def data(self, value: Self) -> None:
        self._require_storing(value)
        self._become(value.detach())

    def _become(self, other: Tensor) -> Self:
        """Take another tensor's places and values."""
        for name in ("_storage", "_layout", "_dtype", "_device"):
            setattr(self, name, getattr(other, name))
        vars(self).update({name: value for name, value in vars(other).items() if name.startswith("_")})
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let the values take part in a graph."""
        self._held.requires_grad_(requires_grad)
        return self

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self._sizes)

    def size(self, dim: int | None = None) -> Answer:
        """Return the sizes, or one of them."""
        return self._sizes if dim is None else self._sizes[dim]
