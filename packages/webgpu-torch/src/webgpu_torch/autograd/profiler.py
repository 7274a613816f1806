"""The profiler by its older name, as ``torch.autograd.profiler``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.profiler.ranges", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.profiler.ranges import *  # noqa: F403
