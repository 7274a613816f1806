"""Which module stands for which when a network is converted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeAlias

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.linear import NonDynamicallyQuantizableLinear

from .. import nn as quantized_nn
from ..nn import qat as nnqat
from ..nn import quantized as nnq
from ..nn.intrinsic import modules as nni
from ..nn.intrinsic import qat as nniqat
from ..nn.intrinsic import quantized as nniq
from ..nn.intrinsic.quantized import dynamic as nniqd
from ..nn.qat import dynamic as nnqatd
from ..nn.quantized import dynamic as nnqd
from .fake_quantize import default_fixed_qparams_range_0to1_fake_quant, default_fixed_qparams_range_neg1to1_fake_quant
from .stubs import DeQuantStub, QuantStub
from .utils import get_combined_dict

Mapping: TypeAlias = dict[Callable[..., Answer], Answer]
del quantized_nn

DEFAULT_STATIC_QUANT_MODULE_MAPPINGS: Mapping = {
    QuantStub: nnq.Quantize, DeQuantStub: nnq.DeQuantize, nn.BatchNorm2d: nnq.BatchNorm2d, nn.BatchNorm3d: nnq.BatchNorm3d,
    nn.Dropout: nnq.Dropout, nn.Conv1d: nnq.Conv1d, nn.Conv2d: nnq.Conv2d, nn.Conv3d: nnq.Conv3d,
    nn.ConvTranspose1d: nnq.ConvTranspose1d, nn.ConvTranspose2d: nnq.ConvTranspose2d, nn.ConvTranspose3d: nnq.ConvTranspose3d,
    nn.ELU: nnq.ELU, nn.Embedding: nnq.Embedding, nn.GroupNorm: nnq.GroupNorm, nn.Hardswish: nnq.Hardswish,
    nn.InstanceNorm1d: nnq.InstanceNorm1d, nn.InstanceNorm2d: nnq.InstanceNorm2d, nn.InstanceNorm3d: nnq.InstanceNorm3d,
    nn.LayerNorm: nnq.LayerNorm, nn.LeakyReLU: nnq.LeakyReLU, NonDynamicallyQuantizableLinear: nnq.Linear, nn.Linear: nnq.Linear,
    nn.ReLU6: nnq.ReLU6, nn.PReLU: nnq.PReLU, nnq.FloatFunctional: nnq.QFunctional,
    nni.BNReLU2d: nniq.BNReLU2d, nni.BNReLU3d: nniq.BNReLU3d, nni.ConvReLU1d: nniq.ConvReLU1d, nni.ConvReLU2d: nniq.ConvReLU2d,
    nni.ConvReLU3d: nniq.ConvReLU3d, nni.LinearReLU: nniq.LinearReLU, nni.LinearLeakyReLU: nniq.LinearLeakyReLU,
    nni.LinearTanh: nniq.LinearTanh,
    nniqat.ConvBn1d: nnq.Conv1d, nniqat.ConvBn2d: nnq.Conv2d, nniqat.ConvBn3d: nnq.Conv3d, nniqat.ConvBnReLU1d: nniq.ConvReLU1d,
    nniqat.ConvBnReLU2d: nniq.ConvReLU2d, nniqat.ConvBnReLU3d: nniq.ConvReLU3d, nniqat.ConvReLU2d: nniq.ConvReLU2d,
    nniqat.ConvReLU3d: nniq.ConvReLU3d, nniqat.LinearReLU: nniq.LinearReLU, nniqat.LinearBn1d: nnq.Linear,
    nnqat.Linear: nnq.Linear, nnqat.Conv2d: nnq.Conv2d, nnqat.Conv3d: nnq.Conv3d,
}  # fmt: skip
DEFAULT_QAT_MODULE_MAPPINGS: Mapping = {
    nn.Conv2d: nnqat.Conv2d, nn.Conv3d: nnqat.Conv3d, nn.Linear: nnqat.Linear, NonDynamicallyQuantizableLinear: nnqat.Linear,
    nni.ConvBn1d: nniqat.ConvBn1d, nni.ConvBn2d: nniqat.ConvBn2d, nni.ConvBn3d: nniqat.ConvBn3d,
    nni.ConvBnReLU1d: nniqat.ConvBnReLU1d, nni.ConvBnReLU2d: nniqat.ConvBnReLU2d, nni.ConvBnReLU3d: nniqat.ConvBnReLU3d,
    nni.ConvReLU2d: nniqat.ConvReLU2d, nni.ConvReLU3d: nniqat.ConvReLU3d, nni.LinearReLU: nniqat.LinearReLU,
    nni.LinearBn1d: nniqat.LinearBn1d,
}  # fmt: skip
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: Mapping = {
    nn.Linear: nnqd.Linear, nnqatd.Linear: nnqd.Linear, NonDynamicallyQuantizableLinear: nnqd.Linear, nni.LinearReLU: nniqd.LinearReLU,
    nn.Embedding: nnq.Embedding, nn.LSTM: nnqd.LSTM, nn.GRU: nnqd.GRU, nn.LSTMCell: nnqd.LSTMCell, nn.GRUCell: nnqd.GRUCell,
    nn.RNNCell: nnqd.RNNCell,
}  # fmt: skip
DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS: Mapping = {
    F.elu: ops.quantized.elu, F.hardswish: ops.quantized.hardswish, F.instance_norm: ops.quantized.instance_norm,
    F.layer_norm: ops.quantized.layer_norm, F.leaky_relu: ops.quantized.leaky_relu, F.dropout: ops.quantized.dropout,
}  # fmt: skip
DEFAULT_MODULE_TO_ACT_POST_PROCESS: Mapping = {
    nn.Hardsigmoid: default_fixed_qparams_range_0to1_fake_quant, nn.Sigmoid: default_fixed_qparams_range_0to1_fake_quant,
    nn.Softmax: default_fixed_qparams_range_0to1_fake_quant, nn.Tanh: default_fixed_qparams_range_neg1to1_fake_quant,
}  # fmt: skip
_INCLUDE_QCONFIG_PROPAGATE_LIST: set[Answer] = {nn.Sequential}


def no_observer_set() -> set[Answer]:
    """Return the modules whose results are not observed."""
    return {nnq.Quantize, nnq.DeQuantize, nn.Dropout}


def get_default_static_quant_module_mappings() -> Mapping:
    """Return what quantised modules stand for which others."""
    return copy.deepcopy(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> Mapping:
    """Return what modules for training stand for which others."""
    return copy.deepcopy(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> Mapping:
    """Return what modules for dynamic quantisation stand for which others."""
    return DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS


def get_embedding_static_quant_module_mappings() -> Mapping:
    """Return what quantised modules stand for which others, tables that are trained among them."""
    return get_default_static_quant_module_mappings()


def get_static_quant_module_class(
    float_module_class: Callable[..., Answer],
    additional_static_quant_mapping: Mapping | None = None,
    is_reference: bool = False,
) -> Answer:
    """Return the quantised module for one.

    Raises:
        NotImplementedError: modules that compute in floating-point numbers what those in integers do are not there.
        AssertionError: there is none for it.
    """
    if is_reference:
        raise NotImplementedError("is_reference=True: reference modules are not here; convert to quantized ones")
    known = get_combined_dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, additional_static_quant_mapping or {})
    found = known.get(float_module_class)
    if found is None:
        raise AssertionError(
            f"Floating point module class {float_module_class} does not have a corresponding quantized module class"
        )
    return copy.deepcopy(found)


def get_dynamic_quant_module_class(
    float_module_class: Callable[..., Answer], additional_dynamic_quant_mapping: Mapping | None = None
) -> Answer:
    """Return the module for dynamic quantisation of one.

    Raises:
        AssertionError: there is none for it.
    """
    known = get_combined_dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS, additional_dynamic_quant_mapping or {})
    found = known.get(float_module_class)
    if found is None:
        raise AssertionError(
            f"Floating point module class {float_module_class} does not have a corresponding quantized module class"
        )
    return copy.deepcopy(found)


def get_default_qconfig_propagation_list() -> set[Answer]:
    """Return the modules that a configuration is handed to."""
    known = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_QAT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)
    return {key for each in known for key in each} | _INCLUDE_QCONFIG_PROPAGATE_LIST


def get_default_compare_output_module_list() -> set[Answer]:
    """Return the modules whose results are compared with those of what they stand for."""
    known = (DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)
    return {each for pairs in known for pair in pairs.items() for each in pair} | set(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_float_to_quantized_operator_mappings() -> Mapping:
    """Return what quantised operations stand for which functions."""
    return copy.deepcopy(DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS)


def get_quantized_operator(float_op: Callable[..., Answer]) -> Answer:
    """Return the quantised operation for a function.

    Raises:
        AssertionError: there is none for it.
    """
    found = DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.get(float_op)
    if found is None:
        raise AssertionError(f"Operator {float_op} does not have corresponding quantized op")
    return found


def _get_special_act_post_process(module: nn.Module) -> Answer:
    """Return what observes the results of a module whose range is known, None for others."""
    return DEFAULT_MODULE_TO_ACT_POST_PROCESS.get(type(module))


def _has_special_act_post_process(module: nn.Module) -> bool:
    return module.training and type(module) in DEFAULT_MODULE_TO_ACT_POST_PROCESS
