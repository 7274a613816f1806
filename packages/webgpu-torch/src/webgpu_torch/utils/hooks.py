"""Handles that remove hooks, as ``torch.utils.hooks``."""

from webgpu_torch_nn.utils.hooks import RemovableHandle as RemovableHandle
