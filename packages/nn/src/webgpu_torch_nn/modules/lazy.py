"""Modules whose sizes the first input decides."""

from __future__ import annotations

from itertools import chain
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm, _NormBase
from webgpu_torch_nn.modules.conv import Conv1d, Conv2d, Conv3d, Sizes
from webgpu_torch_nn.modules.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from webgpu_torch_nn.modules.instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, _InstanceNorm
from webgpu_torch_nn.modules.linear import Linear
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin(Module):
    """A module that makes its parameters at its first call, and then becomes :attr:`cls_to_become`.

    Subclasses register :class:`UninitializedParameter` and define :meth:`initialize_parameters`.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        for name, value in chain(self._parameters.items(), self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = value if is_lazy(value) or keep_vars else value.detach()

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Make the parameters that a checkpoint has values for, so that they can be loaded."""
        for name, value in chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if isinstance(value, UninitializedParameter | UninitializedBuffer) and given is not None:
                if not is_lazy(given):
                    with torch.no_grad():
                        value.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters for the first inputs."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no size yet."""
        return any(is_lazy(value) for value in chain(self._parameters.values(), self._buffers.values()))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _make(self, sizes: dict[str, tuple[int, ...]]) -> None:
        """Give the uninitialised ones among some tensors their sizes, and all of them their starting values."""
        for name, size in sizes.items():
            value = getattr(self, name)
            if isinstance(value, UninitializedParameter | UninitializedBuffer):
                value.materialize(size)
        self.reset_parameters()  # type: ignore[operator]


class LazyLinear(LazyModuleMixin, Linear):
    """A :class:`Linear` whose ``in_features`` is the first input's last size."""

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new starting values, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Make weight and bias for an input."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self._make({"weight": (self.out_features, self.in_features), "bias": (self.out_features,)})
        if self.in_features == 0:
            self.in_features = input.shape[-1]


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution whose ``in_channels`` is the first input's number of channels."""

    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        *args: Any,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(0, 0, kernel_size, *args, bias=False, **kwargs)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new starting values, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Make weight and bias for an input."""
        if not self.has_uninitialized_params():
            return
        rank = len(self.kernel_size)
        if input.dim() not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {input.shape}"
            )
        self.in_channels = input.shape[-rank - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        ends = (self.in_channels, self.out_channels // self.groups)
        if not self.transposed:
            ends = (self.out_channels, self.in_channels // self.groups)
        self._make({"weight": (*ends, *self.kernel_size), "bias": (self.out_channels,)})

    def _get_num_spatial_dims(self) -> int:
        return len(self.kernel_size)


class _LazyConv(_LazyConvXdMixin):
    """The lazy cross-correlations, for their ranks."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: str | Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            out_channels, kernel_size, stride, padding, dilation, groups, bias=bias, padding_mode=padding_mode,
            device=device, dtype=dtype,
        )  # fmt: skip


class _LazyConvTranspose(_LazyConvXdMixin):
    """The lazy transposed convolutions, for their ranks."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            out_channels, kernel_size, stride, padding, output_padding, groups, bias=bias, dilation=dilation,
            padding_mode=padding_mode, device=device, dtype=dtype,
        )  # fmt: skip


class LazyConv1d(_LazyConv, Conv1d):
    """A :class:`Conv1d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A :class:`Conv2d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A :class:`Conv3d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A :class:`ConvTranspose1d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A :class:`ConvTranspose2d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A :class:`ConvTranspose3d` whose ``in_channels`` is the first input's number of channels."""

    cls_to_become = ConvTranspose3d


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """A normalisation whose ``num_features`` is the first input's number of channels."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device=device, dtype=dtype, bias=False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = torch.tensor(0, dtype=torch.int64, device=device)

    def reset_parameters(self) -> None:
        """Set the starting values, once there are sizes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Make the parameters and statistics for an input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            self._make(dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,)))


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm1d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = BatchNorm1d
    _check_input_dim = BatchNorm1d._check_input_dim  # type: ignore[assignment]


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm2d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = BatchNorm2d
    _check_input_dim = BatchNorm2d._check_input_dim  # type: ignore[assignment]


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A :class:`BatchNorm3d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = BatchNorm3d
    _check_input_dim = BatchNorm3d._check_input_dim  # type: ignore[assignment]


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """A :class:`InstanceNorm1d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = InstanceNorm1d
    _dimensions = InstanceNorm1d._dimensions


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """A :class:`InstanceNorm2d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = InstanceNorm2d
    _dimensions = InstanceNorm2d._dimensions


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """A :class:`InstanceNorm3d` whose ``num_features`` is the first input's number of channels."""

    cls_to_become = InstanceNorm3d
    _dimensions = InstanceNorm3d._dimensions
