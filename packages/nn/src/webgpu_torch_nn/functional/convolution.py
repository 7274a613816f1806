"""Convolutions and their transposes."""

from __future__ import annotations

from webgpu_torch_core import conv1d as conv1d
from webgpu_torch_core import conv2d as conv2d
from webgpu_torch_core import conv3d as conv3d
from webgpu_torch_core import conv_transpose1d as conv_transpose1d
from webgpu_torch_core import conv_transpose2d as conv_transpose2d
from webgpu_torch_core import conv_transpose3d as conv_transpose3d
