"""Parameters and buffers: the tensors that a :class:`~webgpu_torch_nn.Module` registers by assignment."""

from __future__ import annotations

from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.direct import PLAIN
from webgpu_torch_core.dispatch.overrides import disabled_implementation


class _ParameterType(type(Tensor)):
    """Let a tensor of a custom class count as a Parameter once it carries ``_is_param``."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class _BufferType(type(Tensor)):
    """A Buffer is an ordinary tensor that carries ``_is_buffer``; there are no instances of the class itself."""

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Parameter(Tensor, metaclass=_ParameterType):
    """A tensor that a Module lists among its parameters when it is assigned as an attribute.

    Args:
        data: the values, any shape and dtype; an empty tensor if None.
        requires_grad: whether autograd computes its gradient, also under ``torch.no_grad()``.
    """

    __torch_function__ = disabled_implementation  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = torch.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        result: Any = data.detach().requires_grad_(requires_grad)
        kind: type = type(result)
        if kind is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns "
                f"an instance of the same type, but return type {kind.__name__} was found instead."
            )
        result._is_param = True
        return result

    def __deepcopy__(self, memo: dict) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        text = super().__repr__()
        return "Parameter containing:\n" + (text if type(self) is Parameter else f"Parameter({text})")


PLAIN.add(Parameter)


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that a Module lists among its buffers when it is assigned as an attribute.

    Args:
        data: the values, any shape and dtype; an empty tensor if None.
        persistent: whether ``state_dict`` includes it.
    """

    __torch_function__ = disabled_implementation  # type: ignore[assignment]

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = torch.empty(0)
        result: Any = data.detach().requires_grad_(data.requires_grad)
        result.persistent = persistent
        result._is_buffer = True
        return result


#: what may be asked of a tensor that has no size yet
_WITHOUT_SIZE = frozenset((
    "__hash__", "__deepcopy__", "__reduce_ex__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double",
    "char", "short", "int", "long", "cuda", "cpu", "to", "get_device", "requires_grad_", "_make_subclass", "share_memory_",
))  # fmt: skip


class UninitializedTensorMixin(Tensor):
    """A tensor that has a type and a device but no size yet."""

    cls_to_become: Any = None

    @classmethod
    def __torch_function__(  # type: ignore[override]
        cls, func: object, types: object, args: tuple[object, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        """Let attributes and conversions through, which need no size.

        Raises:
            ValueError: anything else was called.
        """
        name = getattr(func, "__name__", "")
        if name in _WITHOUT_SIZE or name in ("__get__", "__set__", "__delete__"):
            # A parameter's results are plain tensors; what becomes of a buffer has no size either.
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[arg-type]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `torch.nn.parameter.{cls.__name__}` objects. When using LazyModules Call `forward` with a "
            "dummy batch to initialize the parameters before calling torch functions"
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of a size, with undefined contents."""
        data = torch.empty(shape, device=self.device if device is None else device, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become
        self.data = data

    @property
    def shape(self) -> Any:  # type: ignore[override]
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose size is not known yet; :meth:`materialize` makes it an ordinary one."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict) -> UninitializedParameter:  # type: ignore[override]
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin):
    """A buffer whose size is not known yet; :meth:`materialize` makes it an ordinary one."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: Any = Tensor._make_subclass(cls, torch.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no size yet."""
    return isinstance(param, UninitializedTensorMixin)
