"""Counting floating-point operations, as ``torch.utils.flop_counter``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from .._parts import offer_part

offer_part("webgpu_torch_tools.flop_counter", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.flop_counter import *  # noqa: F403
