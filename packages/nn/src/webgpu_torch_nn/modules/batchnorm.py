"""Normalisation of every channel over the batch and the positions."""

from __future__ import annotations

from typing import Any, cast

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn import init
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import Parameter


class _NormBase(Module):
    """What batch and instance normalisation share: a weight, a bias and running statistics per channel."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, exists in (("weight", affine), ("bias", affine and bias)):
            values = Parameter(torch.empty(num_features, device=device, dtype=dtype)) if exists else None
            self.register_parameter(name, values)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Set the running mean to zeros, the running variance to ones and the count of batches to zero."""
        if self.track_running_stats:
            cast(Tensor, self.running_mean).zero_()
            cast(Tensor, self.running_var).fill_(1)
            cast(Tensor, self.num_batches_tracked).zero_()

    def reset_parameters(self) -> None:
        """Forget the running statistics; set the weight to ones and the bias to zeros."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(cast(Parameter, self.weight))
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError(f"{type(self).__name__} defines no _check_input_dim")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load; states before version 2 hold no count of batches, which then stays as it is."""
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 0) < 2 and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            known = count is not None and not count.is_meta
            state_dict[key] = count if known else torch.tensor(0, dtype=torch.int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    """Batch normalisation of any number of dimensions."""

    def _average_factor(self) -> float:
        """Count the batch; return how far the running statistics move: equally for all batches without a momentum."""
        if not (self.training and self.track_running_stats) or self.num_batches_tracked is None:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        if self.momentum is not None:
            return self.momentum
        # The count stays where it is: reading it would wait for the device in every step.
        return cast(float, self.num_batches_tracked.reciprocal())

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = self._average_factor()
        mean, variance = self.running_mean, self.running_var
        own_statistics = self.training or (mean is None and variance is None)
        if self.training and not self.track_running_stats:
            mean = variance = None
        return F.batch_norm(input, mean, variance, self.weight, self.bias, own_statistics, factor, self.eps)


class BatchNorm1d(_BatchNorm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel of [n, c] or [n, c, l] (Ioffe and Szegedy, 2015).

    In training mean and variance are the batch's, and the running ones move towards them by ``momentum`` (by the number
    of batches so far if it is None); in evaluation they are the running ones, the batch's where none are tracked.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: how far the running statistics move.
        affine: whether ``weight`` (ones) and ``bias`` (zeros) exist.
        track_running_stats: whether there are running statistics.
        bias: whether ``bias`` exists.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in (2, 3):
            raise ValueError(f"expected 2D or 3D input (got {input.ndim}D input)")


class BatchNorm2d(_BatchNorm):
    """:class:`BatchNorm1d` for images [n, c, h, w]."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim != 4:
            raise ValueError(f"expected 4D input (got {input.ndim}D input)")


class BatchNorm3d(_BatchNorm):
    """:class:`BatchNorm1d` for volumes [n, c, d, h, w]."""

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim != 5:
            raise ValueError(f"expected 5D input (got {input.ndim}D input)")


class SyncBatchNorm(_BatchNorm):
    """:class:`BatchNorm1d` for [n, c, …] of at least two dimensions, over all processes of a group.

    One process is the whole group here, so that the statistics are the batch's own.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Return ``module`` with a SyncBatchNorm of the same parameters in place of every batch normalisation."""
        result = module
        if isinstance(module, _BatchNorm):
            result = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            if module.affine:
                result.weight, result.bias = module.weight, module.bias
            result.running_mean, result.running_var = module.running_mean, module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result
