"""Which kernel of PyTorch's computes a convolution: its rule, for programs that ask; here one kernel computes all of them."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from ..backends import mkldnn as _mkldnn
from ..library import define as _define
from ..library import impl as _impl

#: as many elements of one image's first two dimensions, or fewer, are faster without oneDNN
_FEW = 20480
_ConvBackend = enum.IntEnum(
    "_ConvBackend",
    [
        "CudaDepthwise2d", "CudaDepthwise3d", "Cudnn", "CudnnTranspose", "Empty", "Miopen", "MiopenDepthwise", "MiopenTranspose",
        "Mkldnn", "MkldnnTranspose", "MkldnnEmpty", "NnpackSpatial", "Overrideable", "Slow2d", "Slow3d", "SlowDilated2d",
        "SlowDilated3d", "SlowTranspose2d", "SlowTranspose3d", "Winograd3x3Depthwise", "Xnnpack2d", "Mps", "MpsTranspose",
    ],
    module=__name__, start=0,
)  # fmt: skip


def _is_supported() -> bool:
    """Return False: nothing of a processor is asked for."""
    return False


for _name in ("acl", "bf16", "fp16"):
    _define(f"mkldnn::_is_mkldnn_{_name}_supported", "")
    _impl(f"mkldnn::_is_mkldnn_{_name}_supported", "default", _is_supported)


def _by_onednn(
    input: Tensor, shape: list[int], taps: list[int], steps: tuple[list[int], list[int]], after: list[int] | None, groups: int
) -> bool:  # fmt: skip
    """Return whether oneDNN computes a convolution of [n, c, sizes…]; ``after``: the output padding of a transposed one."""
    stride, dilation = steps
    if not _mkldnn.enabled or (after is not None and any(pad >= step for pad, step in zip(after, stride, strict=True))):
        return False
    if input.is_mkldnn or input.dtype is torch.bfloat16:
        return True
    if input.dtype is not torch.float32:
        return False
    flat = max(*stride, *dilation) == 1 and shape[0] < 16 and taps[-2:] == [1, 1] and torch.get_num_threads() == 1
    large = min(taps[-2:]) > 3 or shape[0] * shape[1] * shape[2] * shape[3] > _FEW
    return not flat and (groups > 1 or shape[0] > 1 or large)


def _select_conv_backend(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
    bias_sizes: Sequence[int] | None = None,
) -> _ConvBackend:  # fmt: skip
    """Return which kernel PyTorch takes for a convolution of [n, c, sizes…] where it has oneDNN and NNPACK.

    Raises:
        RuntimeError: an input without elements that has images and channels.
    """
    shape, taps, steps = list(input.shape), list(weight.shape[2:]), (list(stride), list(dilation))
    if 0 in shape[:2]:
        return _ConvBackend.MkldnnEmpty if input.is_mkldnn else _ConvBackend.Empty
    if 0 in shape:
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {shape}")
    if input.device.type != "cpu":
        return _ConvBackend.Overrideable
    after = list(output_padding) if transposed else None
    if len(shape) == 3 and not input.is_mkldnn:
        # A sequence is an image of one row.
        shape.insert(2, 1)
        taps.insert(0, 1)
        for each in steps:
            each.insert(0, 1)
        if after is not None:
            after.insert(0, 0)
    if _by_onednn(input, shape, taps, steps, after, groups):
        return _ConvBackend.MkldnnTranspose if transposed else _ConvBackend.Mkldnn
    if transposed:
        kind = "SlowTranspose"
    elif max(steps[1]) > 1:
        kind = "SlowDilated"
    elif len(shape) == 4 and input.dtype is torch.float32 and shape[0] >= 16 and max(taps) < 17:
        return _ConvBackend.NnpackSpatial
    else:
        kind = "Slow"
    return _ConvBackend[f"{kind}{len(shape) - 2}d"]
