"""Helpers for gradients and parameters."""

from __future__ import annotations

from webgpu_torch_nn.utils import rnn as rnn
from webgpu_torch_nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from webgpu_torch_nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from webgpu_torch_nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from webgpu_torch_nn.utils.clip_grad import get_total_norm as get_total_norm
from webgpu_torch_nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from webgpu_torch_nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from webgpu_torch_nn.utils.init import skip_init as skip_init
from webgpu_torch_nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from webgpu_torch_nn.utils.weight_norm import weight_norm as weight_norm

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "vector_to_parameters",
    "weight_norm",
]
