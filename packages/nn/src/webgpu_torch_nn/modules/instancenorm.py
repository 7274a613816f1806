"""Normalisation of every channel of every instance over the positions."""

from __future__ import annotations

from typing import Any

from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.batchnorm import _NormBase


class _InstanceNorm(_NormBase):
    """Instance normalisation; subclasses say how many dimensions an input without a batch has."""

    _dimensions = 0

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        return self._dimensions

    def _check_input_dim(self, input: Tensor) -> None:
        alone = self._get_no_batch_dim()
        if input.ndim not in (alone, alone + 1):
            raise ValueError(f"expected {alone}D or {alone + 1}D input (got {input.ndim}D input)")

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load; states without a version may hold running statistics that this module does not track."""
        if local_metadata.get("version") is None and not self.track_running_stats:
            names = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if names:
                quoted = " and ".join(f'"{prefix}{name}"' for name in names)
                kind = type(self).__name__
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {quoted} for {kind} with track_running_stats=False: a "
                    "checkpoint older than PyTorch 0.4 holds them always. Remove these keys from the state_dict, or "
                    f"make the {kind} with track_running_stats=True if the statistics are needed."
                )
            for name in names:
                del state_dict[prefix + name]
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        alone = input.ndim == self._get_no_batch_dim()
        dim = 0 if alone else 1
        if input.shape[dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                    f"but got: {input.shape[dim]}."
                )
            warn(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False",
            )
        result = F.instance_norm(
            input.unsqueeze(0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if alone else result


class InstanceNorm1d(_InstanceNorm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the positions of [n, c, l] or [c, l] (Ulyanov et al., 2016).

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: how far running statistics move in training.
        affine: whether ``weight`` (ones) and ``bias`` (zeros) exist.
        track_running_stats: whether there are running statistics, which then count in evaluation.
        bias: whether ``bias`` exists.
    """

    _dimensions = 2


class InstanceNorm2d(_InstanceNorm):
    """:class:`InstanceNorm1d` for images [n, c, h, w] or [c, h, w]."""

    _dimensions = 3


class InstanceNorm3d(_InstanceNorm):
    """:class:`InstanceNorm1d` for volumes [n, c, d, h, w] or [c, d, h, w]."""

    _dimensions = 4
