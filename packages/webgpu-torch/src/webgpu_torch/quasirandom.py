"""Sobol' sequences, as ``torch.quasirandom``; a part of webgpu-torch-tools."""

from typing import TYPE_CHECKING

from ._parts import offer_part

offer_part("webgpu_torch_tools.quasirandom", __name__, "tools")
if TYPE_CHECKING:
    from webgpu_torch_tools.quasirandom import *  # noqa: F403
