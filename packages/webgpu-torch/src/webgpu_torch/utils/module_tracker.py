"""Which modules are being computed, as ``torch.utils.module_tracker``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.module_tracker", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.module_tracker import *  # noqa: F403
