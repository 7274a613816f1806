"""Causal masks that are not written out, as ``torch.nn.attention.bias``."""

from webgpu_torch_nn.attention_bias import CausalBias as CausalBias
from webgpu_torch_nn.attention_bias import CausalVariant as CausalVariant
from webgpu_torch_nn.attention_bias import causal_lower_right as causal_lower_right
from webgpu_torch_nn.attention_bias import causal_upper_left as causal_upper_left
