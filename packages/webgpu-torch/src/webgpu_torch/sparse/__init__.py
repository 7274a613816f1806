"""Sparse tensors, as ``torch.sparse``: by coordinates, or with rows or columns compressed, of elements or of blocks.

They are made of positions and values, multiplied, added, summed, turned into one another and made dense. Their classes are loaded when the
first one is made: calls then look for them among their arguments.
"""

from __future__ import annotations

from webgpu_torch_core.operations.neural.sparse_gradients import makers as _makers

from .functions import (
    addmm,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    sum,
)
from .invariants import check_sparse_tensor_invariants
from .layouts import sparse_bsc as sparse_bsc
from .layouts import sparse_bsr as sparse_bsr
from .layouts import sparse_coo as sparse_coo
from .layouts import sparse_csc as sparse_csc
from .layouts import sparse_csr as sparse_csr
from .making import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    spdiags,
    to_sparse,
    to_sparse_bsc,
    to_sparse_bsr,
    to_sparse_csc,
    to_sparse_csr,
)
from .older_names import TENSORS as _TENSORS
from .older_names import hsmm as hsmm
from .older_names import hspmm as hspmm
from .older_names import smm as smm
from .older_names import sspaddmm as sspaddmm

globals().update(_TENSORS)
_makers.append(sparse_coo_tensor)

__all__ = [
    "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax", "sparse_bsc_tensor",
    "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    "spdiags", "sum", "to_sparse", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_csc", "to_sparse_csr",
]  # fmt: skip
