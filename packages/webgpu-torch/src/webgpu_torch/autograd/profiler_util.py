"""What the profiler records, as ``torch.autograd.profiler_util``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.profiler.events", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.profiler.events import *  # noqa: F403
