"""Linear and bilinear maps."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import linear as linear
from webgpu_torch_core.operations.common import with_gradient_in

from ._arguments import wide


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``y_k = x1ᵀ W_k x2 + b_k``; inputs [*, in1] and [*, in2], weight [out, in1, in2], bias [out]."""
    out_features, in1_features, in2_features = (weight.size(each) for each in range(3))
    if input1.ndim != input2.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}")
    for dim, (one, other) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if one != other:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {dim}: got {one} and {other}")
    for name, given, wanted in (("input1", input1, in1_features), ("input2", input2, in2_features)):
        if given.shape[-1] != wanted:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {given.shape[-1]} but expected {wanted}"
            )
    if bias is not None and bias.size(0) != out_features:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.size(0)} but expected {out_features}"
        )
    if any(each is not None and each.dtype is not input1.dtype for each in (input2, weight, bias)):
        named = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
        found = ", ".join(f"{name}: {each.dtype.word}" for name, each in named.items())
        raise RuntimeError(f"All tensors must have the same dtype, got {found}")
    kind, weight = input1.dtype, wide(with_gradient_in(weight, torch.contiguous_format))
    flat1, flat2 = wide(input1).reshape(-1, in1_features), wide(input2).reshape(-1, in2_features)
    # [n, in1] · [in1, out · in2] gives W x1 for every output; the second contraction is with x2.
    rows = (flat1 @ weight.permute(1, 0, 2).reshape(in1_features, -1)).reshape(-1, out_features, in2_features)
    result = (rows * flat2.unsqueeze(1)).sum(-1).reshape(*input1.shape[:-1], out_features)
    return (result if bias is None else result + bias).to(kind)
