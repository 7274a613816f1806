"""Functions of networks, as ``torch.nn.functional``."""

from webgpu_torch_nn.functional import *  # noqa: F403
