"""Modules as graphs of operations that are saved and run elsewhere, as ``torch.export``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from ._parts import offer_part

offer_part("webgpu_torch_tools.export", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.export import *  # noqa: F403
