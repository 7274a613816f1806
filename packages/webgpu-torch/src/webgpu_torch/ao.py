"""Networks in integers, as ``torch.ao``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from ._parts import offer_part

offer_part("webgpu_torch_tools.ao", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.ao import *  # noqa: F403
