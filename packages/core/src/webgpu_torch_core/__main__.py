"""``python -m webgpu_torch_core``: what is installed, as ``webgpu-torch info`` prints it."""

from .backend.plugins import describe

print(describe())
