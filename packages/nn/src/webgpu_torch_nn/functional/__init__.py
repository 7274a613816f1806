"""Functions of neural networks, one family per file: what core computes, and what is composed from it here."""

from __future__ import annotations

from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.autocast import NAMES, with_autocast
from webgpu_torch_core.dispatch.overrides import PATHS, public, written_in_python
from webgpu_torch_core.dispatch.registry import OPERATIONS

from webgpu_torch_nn.functional.activation import celu as celu
from webgpu_torch_nn.functional.activation import celu_ as celu_
from webgpu_torch_nn.functional.activation import elu as elu
from webgpu_torch_nn.functional.activation import elu_ as elu_
from webgpu_torch_nn.functional.activation import gelu as gelu
from webgpu_torch_nn.functional.activation import glu as glu
from webgpu_torch_nn.functional.activation import gumbel_softmax as gumbel_softmax
from webgpu_torch_nn.functional.activation import hardshrink as hardshrink
from webgpu_torch_nn.functional.activation import hardsigmoid as hardsigmoid
from webgpu_torch_nn.functional.activation import hardswish as hardswish
from webgpu_torch_nn.functional.activation import hardtanh as hardtanh
from webgpu_torch_nn.functional.activation import hardtanh_ as hardtanh_
from webgpu_torch_nn.functional.activation import leaky_relu as leaky_relu
from webgpu_torch_nn.functional.activation import leaky_relu_ as leaky_relu_
from webgpu_torch_nn.functional.activation import log_softmax as log_softmax
from webgpu_torch_nn.functional.activation import logsigmoid as logsigmoid
from webgpu_torch_nn.functional.activation import mish as mish
from webgpu_torch_nn.functional.activation import prelu as prelu
from webgpu_torch_nn.functional.activation import relu as relu
from webgpu_torch_nn.functional.activation import relu6 as relu6
from webgpu_torch_nn.functional.activation import relu_ as relu_
from webgpu_torch_nn.functional.activation import rrelu as rrelu
from webgpu_torch_nn.functional.activation import rrelu_ as rrelu_
from webgpu_torch_nn.functional.activation import selu as selu
from webgpu_torch_nn.functional.activation import selu_ as selu_
from webgpu_torch_nn.functional.activation import sigmoid as sigmoid
from webgpu_torch_nn.functional.activation import silu as silu
from webgpu_torch_nn.functional.activation import softmax as softmax
from webgpu_torch_nn.functional.activation import softmin as softmin
from webgpu_torch_nn.functional.activation import softplus as softplus
from webgpu_torch_nn.functional.activation import softshrink as softshrink
from webgpu_torch_nn.functional.activation import softsign as softsign
from webgpu_torch_nn.functional.activation import tanh as tanh
from webgpu_torch_nn.functional.activation import tanhshrink as tanhshrink
from webgpu_torch_nn.functional.activation import threshold as threshold
from webgpu_torch_nn.functional.activation import threshold_ as threshold_
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_max_pool1d as adaptive_max_pool1d
from webgpu_torch_nn.functional.adaptive_pooling import (
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
)
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_max_pool2d as adaptive_max_pool2d
from webgpu_torch_nn.functional.adaptive_pooling import (
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
)
from webgpu_torch_nn.functional.adaptive_pooling import adaptive_max_pool3d as adaptive_max_pool3d
from webgpu_torch_nn.functional.adaptive_pooling import (
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
)
from webgpu_torch_nn.functional.adaptive_pooling import fractional_max_pool2d as fractional_max_pool2d
from webgpu_torch_nn.functional.adaptive_pooling import (
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
)
from webgpu_torch_nn.functional.adaptive_pooling import fractional_max_pool3d as fractional_max_pool3d
from webgpu_torch_nn.functional.adaptive_pooling import (
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
)
from webgpu_torch_nn.functional.attention import multi_head_attention_forward as multi_head_attention_forward
from webgpu_torch_nn.functional.attention import scaled_dot_product_attention as scaled_dot_product_attention
from webgpu_torch_nn.functional.convolution import conv1d as conv1d
from webgpu_torch_nn.functional.convolution import conv2d as conv2d
from webgpu_torch_nn.functional.convolution import conv3d as conv3d
from webgpu_torch_nn.functional.convolution import conv_tbc as conv_tbc
from webgpu_torch_nn.functional.convolution import conv_transpose1d as conv_transpose1d
from webgpu_torch_nn.functional.convolution import conv_transpose2d as conv_transpose2d
from webgpu_torch_nn.functional.convolution import conv_transpose3d as conv_transpose3d
from webgpu_torch_nn.functional.distance import cosine_similarity as cosine_similarity
from webgpu_torch_nn.functional.distance import normalize as normalize
from webgpu_torch_nn.functional.distance import pairwise_distance as pairwise_distance
from webgpu_torch_nn.functional.distance import pdist as pdist
from webgpu_torch_nn.functional.dropout import alpha_dropout as alpha_dropout
from webgpu_torch_nn.functional.dropout import dropout as dropout
from webgpu_torch_nn.functional.dropout import dropout1d as dropout1d
from webgpu_torch_nn.functional.dropout import dropout2d as dropout2d
from webgpu_torch_nn.functional.dropout import dropout3d as dropout3d
from webgpu_torch_nn.functional.dropout import feature_alpha_dropout as feature_alpha_dropout
from webgpu_torch_nn.functional.embedding import embedding as embedding
from webgpu_torch_nn.functional.embedding import embedding_bag as embedding_bag
from webgpu_torch_nn.functional.embedding import one_hot as one_hot
from webgpu_torch_nn.functional.fold import channel_shuffle as channel_shuffle
from webgpu_torch_nn.functional.fold import fold as fold
from webgpu_torch_nn.functional.fold import native_channel_shuffle as native_channel_shuffle
from webgpu_torch_nn.functional.fold import pixel_shuffle as pixel_shuffle
from webgpu_torch_nn.functional.fold import pixel_unshuffle as pixel_unshuffle
from webgpu_torch_nn.functional.fold import unfold as unfold
from webgpu_torch_nn.functional.grouped import grouped_mm as grouped_mm
from webgpu_torch_nn.functional.interpolation import interpolate as interpolate
from webgpu_torch_nn.functional.interpolation import upsample as upsample
from webgpu_torch_nn.functional.interpolation import upsample_bilinear as upsample_bilinear
from webgpu_torch_nn.functional.interpolation import upsample_nearest as upsample_nearest
from webgpu_torch_nn.functional.linear import bilinear as bilinear
from webgpu_torch_nn.functional.linear import linear as linear
from webgpu_torch_nn.functional.loss import binary_cross_entropy as binary_cross_entropy
from webgpu_torch_nn.functional.loss import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from webgpu_torch_nn.functional.loss import gaussian_nll_loss as gaussian_nll_loss
from webgpu_torch_nn.functional.loss import huber_loss as huber_loss
from webgpu_torch_nn.functional.loss import kl_div as kl_div
from webgpu_torch_nn.functional.loss import l1_loss as l1_loss
from webgpu_torch_nn.functional.loss import mse_loss as mse_loss
from webgpu_torch_nn.functional.loss import poisson_nll_loss as poisson_nll_loss
from webgpu_torch_nn.functional.loss import smooth_l1_loss as smooth_l1_loss
from webgpu_torch_nn.functional.loss_classification import cross_entropy as cross_entropy
from webgpu_torch_nn.functional.loss_classification import linear_cross_entropy as linear_cross_entropy
from webgpu_torch_nn.functional.loss_classification import nll_loss as nll_loss
from webgpu_torch_nn.functional.loss_margin import cosine_embedding_loss as cosine_embedding_loss
from webgpu_torch_nn.functional.loss_margin import hinge_embedding_loss as hinge_embedding_loss
from webgpu_torch_nn.functional.loss_margin import margin_ranking_loss as margin_ranking_loss
from webgpu_torch_nn.functional.loss_margin import multi_margin_loss as multi_margin_loss
from webgpu_torch_nn.functional.loss_margin import multilabel_margin_loss as multilabel_margin_loss
from webgpu_torch_nn.functional.loss_margin import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from webgpu_torch_nn.functional.loss_margin import soft_margin_loss as soft_margin_loss
from webgpu_torch_nn.functional.loss_margin import triplet_margin_loss as triplet_margin_loss
from webgpu_torch_nn.functional.loss_margin import (
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from webgpu_torch_nn.functional.loss_sequence import ctc_loss as ctc_loss
from webgpu_torch_nn.functional.normalization import batch_norm as batch_norm
from webgpu_torch_nn.functional.normalization import group_norm as group_norm
from webgpu_torch_nn.functional.normalization import instance_norm as instance_norm
from webgpu_torch_nn.functional.normalization import layer_norm as layer_norm
from webgpu_torch_nn.functional.normalization import local_response_norm as local_response_norm
from webgpu_torch_nn.functional.normalization import rms_norm as rms_norm
from webgpu_torch_nn.functional.padding import pad as pad
from webgpu_torch_nn.functional.pooling import avg_pool1d as avg_pool1d
from webgpu_torch_nn.functional.pooling import avg_pool2d as avg_pool2d
from webgpu_torch_nn.functional.pooling import avg_pool3d as avg_pool3d
from webgpu_torch_nn.functional.pooling import lp_pool1d as lp_pool1d
from webgpu_torch_nn.functional.pooling import lp_pool2d as lp_pool2d
from webgpu_torch_nn.functional.pooling import lp_pool3d as lp_pool3d
from webgpu_torch_nn.functional.pooling import max_pool1d as max_pool1d
from webgpu_torch_nn.functional.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from webgpu_torch_nn.functional.pooling import max_pool2d as max_pool2d
from webgpu_torch_nn.functional.pooling import max_pool2d_with_indices as max_pool2d_with_indices
from webgpu_torch_nn.functional.pooling import max_pool3d as max_pool3d
from webgpu_torch_nn.functional.pooling import max_pool3d_with_indices as max_pool3d_with_indices
from webgpu_torch_nn.functional.pooling import max_unpool1d as max_unpool1d
from webgpu_torch_nn.functional.pooling import max_unpool2d as max_unpool2d
from webgpu_torch_nn.functional.pooling import max_unpool3d as max_unpool3d
from webgpu_torch_nn.functional.sampling import affine_grid as affine_grid
from webgpu_torch_nn.functional.sampling import grid_sample as grid_sample

for _name in NAMES.intersection(globals()) - {each.rpartition(".")[2] for each in OPERATIONS}:
    # Functions made of several operations follow their rule as a whole; core's own do already.
    globals()[_name] = with_autocast(_name, globals()[_name])
    globals()[_name].__module__ = __name__

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "grouped_mm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

for _name in __all__:
    if globals()[_name] not in PATHS:
        _path = f"torch.nn.functional.{_name}"
        globals()[_name] = public(globals()[_name], _path, whole=written_in_python(_path))
        globals()[_name].__module__ = __name__

# Methods of tensors that PyTorch has of these, too.
Tensor.prelu = public(prelu.__wrapped__, "torch.Tensor.prelu")  # type: ignore[attr-defined]
Tensor.hardshrink = public(hardshrink.__wrapped__, "torch.Tensor.hardshrink")  # type: ignore[attr-defined]
