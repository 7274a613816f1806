"""Measuring how long statements take, as ``torch.utils.benchmark``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.benchmark", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.benchmark import *  # noqa: F403
