"""The older name of ``torch.ao.nn.quantized``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.ao.nn.quantized", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.ao.nn.quantized import *  # noqa: F403
