"""Comparisons of tensors for tests, as ``torch.testing``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from ._parts import offer_part

offer_part("webgpu_torch_tools.testing", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.testing import *  # noqa: F403
