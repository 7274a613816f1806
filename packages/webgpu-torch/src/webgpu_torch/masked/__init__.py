"""Reductions of what a mask shows, as ``torch.masked``; masks and operands may be sparse."""

from webgpu_torch_core.api.masked import *

from ._ops import (
    _canonical_dim as _canonical_dim,
)
from ._ops import (
    _input_mask as _input_mask,
)
from ._ops import (
    _output_mask as _output_mask,
)
from ._ops import (
    _reduction_identity as _reduction_identity,
)
from ._ops import (
    _where as _where,
)
