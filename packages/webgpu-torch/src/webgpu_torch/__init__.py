# ruff: noqa: I001
"""PyTorch's API on any GPU that speaks WebGPU: ``import webgpu_torch as torch``."""

from __future__ import annotations

import gc as _gc
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

# What is imported stays: the collector of garbage need not look at it, at each time about as long as a small program's first
# result takes. What is garbage by now would stay with it.
if _gc.isenabled():
    _gc.collect()
from webgpu_torch_core import *

if _gc.isenabled():
    _gc.freeze()
from webgpu_torch_core.backend.collection import collect_seldom as _collect_seldom
from webgpu_torch_nn.functional import adaptive_avg_pool1d as adaptive_avg_pool1d
from webgpu_torch_nn.functional import alpha_dropout as alpha_dropout
from webgpu_torch_nn.functional import avg_pool1d as avg_pool1d
from webgpu_torch_nn.functional import bilinear as bilinear
from webgpu_torch_nn.functional import celu as celu
from webgpu_torch_nn.functional import channel_shuffle as channel_shuffle
from webgpu_torch_nn.functional import cosine_similarity as cosine_similarity
from webgpu_torch_nn.functional import dropout as dropout
from webgpu_torch_nn.functional import feature_alpha_dropout as feature_alpha_dropout
from webgpu_torch_nn.functional import group_norm as group_norm
from webgpu_torch_nn.functional import hardshrink as hardshrink
from webgpu_torch_nn.functional import layer_norm as layer_norm
from webgpu_torch_nn.functional import max_pool1d as max_pool1d
from webgpu_torch_nn.functional import max_pool2d as max_pool2d
from webgpu_torch_nn.functional import max_pool3d as max_pool3d
from webgpu_torch_nn.functional import native_channel_shuffle as native_channel_shuffle
from webgpu_torch_nn.functional import pairwise_distance as pairwise_distance
from webgpu_torch_nn.functional import pdist as pdist
from webgpu_torch_nn.functional import pixel_shuffle as pixel_shuffle
from webgpu_torch_nn.functional import pixel_unshuffle as pixel_unshuffle
from webgpu_torch_nn.functional import prelu as prelu
from webgpu_torch_nn.functional import rms_norm as rms_norm
from webgpu_torch_nn.functional import rrelu as rrelu
from webgpu_torch_nn.functional import selu as selu
from webgpu_torch_nn.functional import threshold as threshold
from webgpu_torch_nn.functional.recurrent import gru as gru
from webgpu_torch_nn.functional.recurrent import gru_cell as gru_cell
from webgpu_torch_nn.functional.recurrent import lstm as lstm
from webgpu_torch_nn.functional.recurrent import lstm_cell as lstm_cell
from webgpu_torch_nn.functional.recurrent import rnn_relu as rnn_relu
from webgpu_torch_nn.functional.recurrent import rnn_relu_cell as rnn_relu_cell
from webgpu_torch_nn.functional.recurrent import rnn_tanh as rnn_tanh
from webgpu_torch_nn.functional.recurrent import rnn_tanh_cell as rnn_tanh_cell
from webgpu_torch_nn.functional.native import convolution as convolution
from webgpu_torch_nn.functional.native import embedding_bag as embedding_bag
from webgpu_torch_nn.functional.native import grid_sampler as grid_sampler
from webgpu_torch_nn.functional.native import grid_sampler_2d as grid_sampler_2d
from webgpu_torch_nn.functional.native import grid_sampler_3d as grid_sampler_3d
from webgpu_torch_nn.functional.native import native_batch_norm as native_batch_norm
from webgpu_torch_nn.functional.native import native_dropout as native_dropout
from webgpu_torch_nn.functional.native import native_group_norm as native_group_norm
from webgpu_torch_nn.functional.native import native_layer_norm as native_layer_norm
from webgpu_torch_nn.functional.deprecated import frobenius_norm as frobenius_norm
from webgpu_torch_nn.functional.deprecated import nuclear_norm as nuclear_norm
from webgpu_torch_nn.functional.deprecated import range as range
from webgpu_torch_nn.functional.fast_attention import _native_multi_head_attention as _native_multi_head_attention
from webgpu_torch_nn.functional.fast_attention import _transformer_encoder_layer_fwd as _transformer_encoder_layer_fwd

from . import __config__ as __config__
from . import __future__ as __future__
from . import _C as _C
from . import _dynamo as _dynamo
from . import _jit_internal as _jit_internal
from . import _utils as _utils
from . import accelerator as accelerator
from . import amp as amp
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import distributed as distributed
from . import distributions as distributions
from . import fft as fft
from . import func as func
from . import futures as futures
from . import hub as hub
from . import jit as jit
from . import library as library
from . import linalg as linalg
from . import masked as masked
from . import mps as mps
from . import nested as nested
from . import nn as nn
from . import onnx as onnx
from . import optim as optim
from . import overrides as overrides
from . import random as random
from . import serialization as serialization
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import types as types
from . import utils as utils
from . import version as version
from . import xpu as xpu
from ._foreach import FUNCTIONS as _FOREACH
from ._compile import _disable_dynamo as _disable_dynamo
from ._linalg_utils import _symeig as symeig
from ._linalg_utils import eig as eig
from ._linalg_utils import lstsq as lstsq
from ._linalg_utils import matrix_rank as matrix_rank
from ._linalg_utils import solve as solve
from ._products import _addmm_activation as _addmm_activation
from ._products import _int_mm as _int_mm
from ._products import _weight_int8pack_mm as _weight_int8pack_mm
from ._quantized import _empty_affine_quantized as _empty_affine_quantized
from ._quantized import _empty_per_channel_affine_quantized as _empty_per_channel_affine_quantized
from ._quantized import _make_per_channel_quantized_tensor as _make_per_channel_quantized_tensor
from ._quantized import _make_per_tensor_quantized_tensor as _make_per_tensor_quantized_tensor
from ._quantized import dequantize as dequantize
from ._quantized import empty_quantized as empty_quantized
from ._quantized import int_repr as int_repr
from ._quantized import q_per_channel_axis as q_per_channel_axis
from ._quantized import q_per_channel_scales as q_per_channel_scales
from ._quantized import q_per_channel_zero_points as q_per_channel_zero_points
from ._quantized import q_scale as q_scale
from ._quantized import q_zero_point as q_zero_point
from ._quantized import quantize_per_channel as quantize_per_channel
from ._quantized import quantize_per_tensor as quantize_per_tensor
from ._quantized import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from ._symbolic import _sym_sqrt as _sym_sqrt
from ._symbolic import sym_float as sym_float
from ._symbolic import sym_int as sym_int
from ._symbolic import sym_ite as sym_ite
from ._symbolic import sym_max as sym_max
from ._symbolic import sym_min as sym_min
from ._symbolic import sym_not as sym_not
from ._symbolic import sym_sum as sym_sum
from webgpu_torch_nn.distributions.gamma import differentiable_gamma as _standard_gamma
from webgpu_torch_nn.distributions.gamma import differentiable_shares as _sample_dirichlet

from .checks import _assert as _assert
from .checks import _assert_async as _assert_async
from .checks import _debug_has_internal_overlap as _debug_has_internal_overlap
from .checks import _efficientzerotensor as _efficientzerotensor
from .checks import _neg_view as _neg_view
from .checks import _shape_as_tensor as _shape_as_tensor
from .checks import _check as _check
from .checks import _check_index as _check_index
from .checks import _check_is_size as _check_is_size
from .checks import _check_not_implemented as _check_not_implemented
from .checks import _check_tensor_all as _check_tensor_all
from .checks import _check_tensor_all_with as _check_tensor_all_with
from .checks import _check_type as _check_type
from .checks import _check_value as _check_value
from .checks import _check_with as _check_with
from ._higher_order_ops import cond as cond
from ._parts import install_as_torch as install_as_torch
from ._parts import lazily as _lazily
from .backends.mkldnn import _mkldnn as _mkldnn
from .accelerator import get_device_module as get_device_module
from .func import vmap as vmap
from .jit import fork as fork
from .jit import wait as wait
from .library import ops as ops
from .streams import Event as Event
from .streams import Stream as Stream
from .nested import _nested_tensor_from_mask as _nested_tensor_from_mask
from .nested import _nested_tensor_from_mask_left_aligned as _nested_tensor_from_mask_left_aligned
from .nested import jagged as jagged
from .sparse import hspmm as hspmm
from .sparse import hsmm as hsmm
from .sparse import smm as smm
from .sparse import sparse_bsc as sparse_bsc
from .sparse import sparse_bsc_tensor as sparse_bsc_tensor
from .sparse import sparse_bsr as sparse_bsr
from .sparse import sparse_bsr_tensor as sparse_bsr_tensor
from .sparse import sparse_compressed_tensor as sparse_compressed_tensor
from .sparse import sparse_coo as sparse_coo
from .sparse import sparse_coo_tensor as sparse_coo_tensor
from .sparse import sparse_csc as sparse_csc
from .sparse import sparse_csc_tensor as sparse_csc_tensor
from .sparse import sparse_csr as sparse_csr
from .sparse import sparse_csr_tensor as sparse_csr_tensor
from .sparse import sspaddmm as sspaddmm
from .sparse.validation import _validate_sparse_bsc_tensor_args as _validate_sparse_bsc_tensor_args
from .sparse.validation import _validate_sparse_bsr_tensor_args as _validate_sparse_bsr_tensor_args
from .sparse.validation import _validate_sparse_compressed_tensor_args as _validate_sparse_compressed_tensor_args
from .sparse.validation import _validate_sparse_coo_tensor_args as _validate_sparse_coo_tensor_args
from .sparse.validation import _validate_sparse_csc_tensor_args as _validate_sparse_csc_tensor_args
from .sparse.validation import _validate_sparse_csr_tensor_args as _validate_sparse_csr_tensor_args
from webgpu_torch_core import mm as dsmm
from webgpu_torch_core import mm as spmm
from .version import __version__ as __version__

newaxis = None
globals().update(_FOREACH)

if _TYPE_CHECKING:
    from . import ao as ao
    from . import export as export
    from . import fx as fx
    from . import multiprocessing as multiprocessing
    from . import profiler as profiler
    from . import quantization as quantization
    from . import quasirandom as quasirandom
    from . import return_types as return_types
    from . import testing as testing
    from . import web as web
else:
    __getattr__ = _lazily(
        __name__,
        "ao",
        "export",
        "fx",
        "multiprocessing",
        "profiler",
        "quantization",
        "quasirandom",
        "return_types",
        "testing",
        "web",
    )

if _gc.isenabled():
    _gc.freeze()
_collect_seldom()
