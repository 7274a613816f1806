"""How modules that follow each other become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_nn import Module
from webgpu_torch_nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from ..nn.intrinsic import modules as nni
from .utils import get_combined_dict

Method: TypeAlias = Callable[..., Answer]
_WITH_NORM = {nn.Conv1d: nni.ConvBn1d, nn.Conv2d: nni.ConvBn2d, nn.Conv3d: nni.ConvBn3d}
_WITH_BOTH = {nn.Conv1d: nni.ConvBnReLU1d, nn.Conv2d: nni.ConvBnReLU2d, nn.Conv3d: nni.ConvBnReLU3d}
_WITH_RELU = {nn.Conv1d: nni.ConvReLU1d, nn.Conv2d: nni.ConvReLU2d, nn.Conv3d: nni.ConvReLU3d}


def _require_mode(*modules: Module) -> None:
    if len({each.training for each in modules}) != 1:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def _require_norm(is_qat: bool, conv: Answer, bn: Answer) -> None:
    if not is_qat:
        return
    if bn.num_features != conv.out_channels:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d.")
    if not bn.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with tracking_running_stats set to True")


def fuse_conv_bn(is_qat: bool, conv: Module, bn: Module) -> Module:
    """Return a convolution and a batch normalisation as one: a convolution, or for training both together.

    Raises:
        AssertionError: one is in training and the other is not, or they do not fit together.
        NotImplementedError: there is no module for both.
    """
    _require_mode(conv, bn)
    _require_norm(is_qat, conv, bn)
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)  # type: ignore[arg-type]
    found = _WITH_NORM.get(type(conv))  # type: ignore[call-overload]
    if found is None:
        raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
    return found(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Module, bn: Module, relu: Module) -> Module:
    """Return a convolution, a batch normalisation and a ReLU as one.

    Raises:
        AssertionError: some are in training and others are not, or they do not fit together.
        NotImplementedError: there is no module for them.
    """
    _require_mode(conv, bn, relu)
    _require_norm(is_qat, conv, bn)
    found = (_WITH_BOTH if is_qat else _WITH_RELU).get(type(conv))  # type: ignore[call-overload]
    if found is None:
        raise NotImplementedError(f"Cannot fuse {'train' if is_qat else 'eval'} modules: {(conv, bn, relu)}")
    return found(conv, bn, relu) if is_qat else found(fuse_conv_bn_eval(conv, bn), relu)  # type: ignore[arg-type]


def fuse_linear_bn(is_qat: bool, linear: Module, bn: Module) -> Module:
    """Return a linear layer and a batch normalisation as one: a layer, or for training both together.

    Raises:
        AssertionError: one is in training and the other is not, or they do not fit together.
    """
    _require_mode(linear, bn)
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)  # type: ignore[arg-type]
    if bn.num_features != linear.out_features or not bn.affine or not bn.track_running_stats:
        raise AssertionError(
            "Output features of Linear must match num_features of BatchNorm1d, with affine and tracked statistics"
        )
    return nni.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Module, bn: Module) -> Module:
    """Return a transposed convolution and a batch normalisation as one.

    Raises:
        AssertionError: one is in training and the other is not.
        Exception: they are to be trained.
    """
    _require_mode(convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)  # type: ignore[arg-type]


def _sequential_wrapper2(sequential: Method) -> Method:
    return lambda is_qat, m1, m2: sequential(m1, m2)


_DEFAULT_OP_LIST_TO_FUSER_METHOD: dict[tuple[Answer, ...], Method] = {
    **dict.fromkeys(((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)), fuse_conv_bn),
    **{(conv, bn, nn.ReLU): fuse_conv_bn_relu for conv, bn in (
        (nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d),
    )},
    **{(conv, nn.ReLU): _sequential_wrapper2(fused) for conv, fused in _WITH_RELU.items()},
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn, (nn.Linear, nn.ReLU): _sequential_wrapper2(nni.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _sequential_wrapper2(nni.BNReLU2d), (nn.BatchNorm3d, nn.ReLU): _sequential_wrapper2(nni.BNReLU3d),
    **dict.fromkeys(((nn.ConvTranspose1d, nn.BatchNorm1d), (nn.ConvTranspose2d, nn.BatchNorm2d), (nn.ConvTranspose3d, nn.BatchNorm3d)), fuse_convtranspose_bn),
}  # fmt: skip


def get_fuser_method(
    op_list: tuple[Answer, ...], additional_fuser_method_mapping: dict[tuple[Answer, ...], Method] | None = None
) -> Method:
    """Return what makes one of modules of some classes.

    Raises:
        AssertionError: nothing does.
    """
    known = get_combined_dict(_DEFAULT_OP_LIST_TO_FUSER_METHOD, additional_fuser_method_mapping or {})
    found = known.get(op_list)
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found
