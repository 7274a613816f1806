"""Helpers for gradients and parameters."""

from __future__ import annotations

from webgpu_torch_nn._exports import exported as _exported
from webgpu_torch_nn.utils import prune as prune
from webgpu_torch_nn.utils import rnn as rnn
from webgpu_torch_nn.utils import stateless as stateless
from webgpu_torch_nn.utils.clip_grad import clip_grad_norm as clip_grad_norm
from webgpu_torch_nn.utils.clip_grad import clip_grad_norm_ as clip_grad_norm_
from webgpu_torch_nn.utils.clip_grad import clip_grad_value_ as clip_grad_value_
from webgpu_torch_nn.utils.clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from webgpu_torch_nn.utils.clip_grad import get_total_norm as get_total_norm
from webgpu_torch_nn.utils.convert_parameters import parameters_to_vector as parameters_to_vector
from webgpu_torch_nn.utils.convert_parameters import vector_to_parameters as vector_to_parameters
from webgpu_torch_nn.utils.fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from webgpu_torch_nn.utils.fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from webgpu_torch_nn.utils.fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from webgpu_torch_nn.utils.fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from webgpu_torch_nn.utils.init import skip_init as skip_init
from webgpu_torch_nn.utils.memory_format import (
    convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
)
from webgpu_torch_nn.utils.memory_format import (
    convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
)
from webgpu_torch_nn.utils.spectral_norm import remove_spectral_norm as remove_spectral_norm
from webgpu_torch_nn.utils.spectral_norm import spectral_norm as spectral_norm
from webgpu_torch_nn.utils.weight_norm import remove_weight_norm as remove_weight_norm
from webgpu_torch_nn.utils.weight_norm import weight_norm as weight_norm

__all__ = _exported(globals(), "prune", "rnn", "stateless")
