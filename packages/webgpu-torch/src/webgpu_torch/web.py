"""Networks for browsers and Node; webgpu-torch-web."""

from typing import TYPE_CHECKING

from ._parts import offer_part

offer_part("webgpu_torch_web", __name__, "web")
if TYPE_CHECKING:
    from webgpu_torch_web import *  # noqa: F403
