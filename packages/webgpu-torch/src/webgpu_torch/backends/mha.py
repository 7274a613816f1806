"""``torch.backends.mha``: whether attention of several heads is computed in one call by modules that only evaluate."""

from __future__ import annotations

import sys

from webgpu_torch_nn.functional import fast_attention
from webgpu_torch_nn.functional.fast_attention import get_fastpath_enabled as get_fastpath_enabled
from webgpu_torch_nn.functional.fast_attention import set_fastpath_enabled as set_fastpath_enabled

# Programs that replace torch._native_multi_head_attention find that modules call theirs.
fast_attention.home = sys.modules[__name__.partition(".")[0]]
