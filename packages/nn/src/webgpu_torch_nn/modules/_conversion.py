"""Converting a Module's tensors in place: device, dtype and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn
from webgpu_torch_core.operations.creation import conversion
from webgpu_torch_core.operations.creation.factories import as_dtype
from webgpu_torch_core.tensors.swapping import swap_tensors

from webgpu_torch_nn.modules._attributes import ModuleAttributes
from webgpu_torch_nn.modules._future import (
    get_overwrite_module_params_on_conversion,
    get_swap_module_params_on_conversion,
)
from webgpu_torch_nn.parameter import Parameter

if TYPE_CHECKING:
    from typing import Self


_COMPLEX_NOTE = (
    "Complex modules are a new feature under active development whose design may change, and some modules might not work as "
    "expected when using complex tensors as parameters or buffers. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a complex module does not work as expected."
)


def typename(value: Any) -> str:
    """Return the name by which PyTorch's messages call the type of ``value``."""
    if isinstance(value, Tensor):
        return value.type()
    kind = value if isinstance(value, type) else type(value)
    module = getattr(kind, "__module__", "builtins")
    return kind.__qualname__ if module in ("builtins", "__builtin__", None) else f"{module}.{kind.__qualname__}"


def parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
    """Read the arguments of ``to``: ``(device, dtype, non_blocking)``, ``(dtype, non_blocking)`` or ``(tensor,)``."""
    kwargs.pop("memory_format", None)
    given = (kwargs.pop("tensor"), *args) if "tensor" in kwargs else args
    named = kwargs.pop("dtype", None), kwargs.pop("device", None)
    flags = kwargs.pop("non_blocking", False), kwargs.pop("copy", False)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    dtype, device, (non_blocking, _) = conversion.parse_to(given, *named, flags)
    return (None if device is None else torch.device(device)), as_dtype(dtype), non_blocking


def clear_grad(parameter: Tensor, set_to_none: bool) -> None:
    """Drop the gradient of one parameter, or cut it from its history and zero it in place."""
    if parameter.grad is None:
        return
    if set_to_none:
        parameter.grad = None
        return
    if parameter.grad.grad_fn is not None:
        parameter.grad.detach_()
    else:
        parameter.grad.requires_grad_(False)
    parameter.grad.zero_()


def _becomes(tensor: Tensor, converted: Tensor) -> bool:
    """Return whether a tensor takes what it was converted to for its own, as ``torch.__future__`` is set."""
    return tensor._storing == converted._storing and not get_overwrite_module_params_on_conversion()


def _replacement(parameter: Tensor, converted: Tensor) -> Parameter:
    """Return the parameter that comes instead of one that cannot become what it was converted to.

    Raises:
        AssertionError: it is no parameter, or not a leaf.
    """
    if not isinstance(parameter, Parameter):
        raise AssertionError("param must be a Parameter")
    if not parameter.is_leaf:
        raise AssertionError("param must be a leaf tensor")
    return Parameter(converted, parameter.requires_grad)


class ConversionMixin(ModuleAttributes):
    """The conversion half of :class:`~webgpu_torch_nn.Module`."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        if recurse:
            for module in self.children():
                module._apply(fn)
        for key, parameter in self._parameters.items():
            if parameter is None:
                continue
            with torch.no_grad():
                converted = fn(parameter)
            grad = parameter.grad
            swapped = get_swap_module_params_on_conversion() or hasattr(converted, "__tensor_flatten__")
            current = parameter
            if swapped:
                self._swap(key, parameter, converted)
            elif _becomes(parameter, converted):
                # The Parameter object stays, so that optimisers and tied modules keep seeing it.
                parameter.data = converted
            else:
                current = self._parameters[key] = _replacement(parameter, converted)
            if grad is None:
                continue
            with torch.no_grad():
                converted = fn(grad)
            if swapped:
                self._swap(f"{key}.grad", grad, converted.requires_grad_(grad.requires_grad))
                current.grad = grad
            elif _becomes(grad, converted) and current is parameter:
                grad.data = converted
            else:
                if not grad.is_leaf:
                    raise AssertionError("param_grad must be a leaf tensor")
                current.grad = converted.requires_grad_(grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _swap(self, path: str, tensor: Tensor, converted: Tensor) -> None:
        """Let a parameter, which loses its gradient, or a gradient be what it was converted to.

        Raises:
            RuntimeError: there are weak references to one of them.
        """
        parameter = isinstance(tensor, Parameter)
        grad = tensor.grad if parameter else None
        try:
            if grad is not None:
                tensor.grad = None
            swap_tensors(tensor, Parameter(converted, tensor.requires_grad) if parameter else converted)
        except Exception as error:
            if grad is not None:
                tensor.grad = grad
            raise RuntimeError(f"_apply(): Couldn't swap {type(self).__name__}.{path}") from error

    def apply(self, fn: Callable[[Any], None]) -> Self:
        """Call ``fn`` on every submodule, children first, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move the parameters and buffers to a device and the floating-point ones to a dtype, in place.

        Call as ``to(device, dtype, non_blocking)``, ``to(dtype, non_blocking)`` or ``to(tensor)``; ``memory_format``
        changes the strides of tensors of 4 or 5 dimensions.

        Raises:
            TypeError: the dtype is neither floating point nor complex.
        """
        memory_format = kwargs.get("memory_format")
        device, dtype, non_blocking = parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warn(_COMPLEX_NOTE)

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            if tensor.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                )
            if memory_format is not None and tensor.ndim in (4, 5):
                place = tensor.device if device is None else device
                return tensor.to(place, wanted or tensor.dtype, memory_format=memory_format)
            if device is None:
                return tensor if wanted is None else tensor.to(wanted, non_blocking)
            return tensor.to(device, tensor.dtype if wanted is None else wanted, non_blocking)

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying values: what arrives is uninitialised."""
        return self._apply(lambda tensor: torch.empty_like(tensor, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to ``dst_type``."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _cast_floating(self, dtype: Any) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Self:
        """Cast the floating-point parameters and buffers to float32."""
        return self._cast_floating(torch.float32)

    def double(self) -> Self:
        """Cast the floating-point parameters and buffers to float64."""
        return self._cast_floating(torch.float64)

    def half(self) -> Self:
        """Cast the floating-point parameters and buffers to float16."""
        return self._cast_floating(torch.float16)

    def bfloat16(self) -> Self:
        """Cast the floating-point parameters and buffers to bfloat16."""
        return self._cast_floating(torch.bfloat16)

    def share_memory(self) -> Self:
        """Call :meth:`~torch.Tensor.share_memory_` on all parameters and buffers."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def cuda(self, device: Any = None) -> Self:
        """Refuse: the GPU is reached through WebGPU.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"there is no CUDA device {device or ''}; move the module with .to('webgpu')".replace("  ", " ")
        )

    def cpu(self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda tensor: tensor.cpu())
