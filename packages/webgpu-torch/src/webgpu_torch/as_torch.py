"""``import webgpu_torch.as_torch`` in front of ``import torch``: the one line that a PyTorch program needs to run on WebGPU.

Importing this module calls :func:`webgpu_torch.install_as_torch`.
"""

from __future__ import annotations

from . import install_as_torch

install_as_torch()
