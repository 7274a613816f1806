"""Modules as functions, as ``torch.func``; its transformations of functions are not there."""

from webgpu_torch_nn.func import functional_call as functional_call
from webgpu_torch_nn.func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_
from webgpu_torch_nn.func import stack_module_state as stack_module_state
