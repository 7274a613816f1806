"""What users get wrong with algebra, layers, gradients, training and files: one line for each mistake."""

from __future__ import annotations

import io
from typing import Any

from mistakes_with_tensors import Mistakes

ALGEBRA: Mistakes = {
    "inverse of what is not square": lambda t: t.linalg.inv(t.ones(2, 3)),
    "inverse of a row": lambda t: t.linalg.inv(t.ones(3)),
    "inverse of a singular matrix": lambda t: t.linalg.inv(t.zeros(2, 2)),
    "inverse of integers": lambda t: t.linalg.inv(t.ones(2, 2, dtype=t.int64)),
    "solution of other sizes": lambda t: t.linalg.solve(t.eye(2), t.ones(3)),
    "solution of a singular matrix": lambda t: t.linalg.solve(t.zeros(2, 2), t.ones(2)),
    "solution of what is not square": lambda t: t.linalg.solve(t.ones(2, 3), t.ones(2)),
    "solution of two types": lambda t: t.linalg.solve(t.eye(2), t.ones(2, dtype=t.complex64)),
    "cholesky of what is not positive": lambda t: t.linalg.cholesky(-t.eye(2)),
    "cholesky of what is not square": lambda t: t.linalg.cholesky(t.ones(2, 3)),
    "cholesky of integers": lambda t: t.linalg.cholesky(t.eye(2, dtype=t.int64)),
    "determinant of what is not square": lambda t: t.linalg.det(t.ones(2, 3)),
    "determinant of integers": lambda t: t.linalg.det(t.ones(2, 2, dtype=t.int64)),
    "slogdet of a row": lambda t: t.linalg.slogdet(t.ones(3)),
    "eigenvalues of what is not square": lambda t: t.linalg.eigh(t.ones(2, 3)),
    "eigenvalues of an unknown triangle": lambda t: t.linalg.eigh(t.eye(2), UPLO="X"),
    "svd of a row": lambda t: t.linalg.svd(t.ones(3)),
    "svd of integers": lambda t: t.linalg.svd(t.ones(2, 2, dtype=t.int64)),
    "qr of a row": lambda t: t.linalg.qr(t.ones(3)),
    "qr of an unknown mode": lambda t: t.linalg.qr(t.eye(2), mode="nope"),
    "power of what is not square": lambda t: t.linalg.matrix_power(t.ones(2, 3), 2),
    "power of a fraction": lambda t: t.linalg.matrix_power(t.eye(2), 0.5),
    "negative power of a singular matrix": lambda t: t.linalg.matrix_power(t.zeros(2, 2), -1),
    "exponential of what is not square": lambda t: t.linalg.matrix_exp(t.ones(2, 3)),
    "exponential of integers": lambda t: t.linalg.matrix_exp(t.ones(2, 2, dtype=t.int64)),
    "least squares of other heights": lambda t: t.linalg.lstsq(t.ones(3, 2), t.ones(2, 1)),
    "pseudo-inverse of a row": lambda t: t.linalg.pinv(t.ones(3)),
    "rank of a string": lambda t: t.linalg.matrix_rank("a"),
    "triangular solution without a side": lambda t: t.linalg.solve_triangular(t.eye(2), t.ones(2, 1)),
    "triangular solution of other sizes": lambda t: t.linalg.solve_triangular(t.eye(2), t.ones(3, 1), upper=True),
    "vecdot of other lengths": lambda t: t.linalg.vecdot(t.ones(2), t.ones(3)),
    "tensorinv of what is not square": lambda t: t.linalg.tensorinv(t.ones(2, 3, 2), ind=1),
    "tensorsolve of other sizes": lambda t: t.linalg.tensorsolve(t.ones(2, 3), t.ones(2)),
    "vander of a number": lambda t: t.linalg.vander(t.tensor(1.0)),
    "householder of other sizes": lambda t: t.linalg.householder_product(t.ones(2, 3), t.ones(3)),
    "lu of a row": lambda t: t.linalg.lu(t.ones(3)),
    "condition of a row": lambda t: t.linalg.cond(t.ones(3)),
    "norm of three dimensions": lambda t: t.linalg.norm(t.ones(2, 2, 2), "fro"),
    "fft of booleans as a string": lambda t: t.fft.fft("a"),
    "fft of no elements": lambda t: t.fft.fft(t.ones(0)),
    "fft of a negative length": lambda t: t.fft.fft(t.ones(4), n=-2),
    "fft of a dimension outside": lambda t: t.fft.fft(t.ones(4), dim=1),
    "fft of an unknown norm": lambda t: t.fft.fft(t.ones(4), norm="nope"),
    "rfft of complex numbers": lambda t: t.fft.rfft(t.ones(4, dtype=t.complex64)),
    "fft2 of a row": lambda t: t.fft.fft2(t.ones(4)),
    "fftn of a dimension twice": lambda t: t.fft.fftn(t.ones(2, 2), dim=(0, 0)),
    "fftfreq of nothing": lambda t: t.fft.fftfreq(),
    "stft of complex windows of another length": lambda t: t.stft(t.ones(8), 4, window=t.ones(3), return_complex=True),
    "stft of more than there is": lambda t: t.stft(t.ones(4), 16, center=False, return_complex=True),
    "stft that does not say complex": lambda t: t.stft(t.ones(8), 4),
    "istft of real numbers": lambda t: t.istft(t.ones(3, 4), 4),
}

LAYERS: Mistakes = {
    "instance_norm with one weight": lambda t: t.nn.functional.instance_norm(t.ones(2, 3, 4), weight=t.tensor(0.5)),
    "instance_norm with one bias": lambda t: t.nn.functional.instance_norm(t.ones(2, 3, 4), bias=t.ones(1)),
    "conv_transpose1d with one bias": lambda t: t.conv_transpose1d(t.ones(1, 2, 4), t.ones(2, 3, 3), t.tensor(0.5)),
    "batch_norm with one running statistic": lambda t: t.nn.functional.batch_norm(
        t.ones(2, 3), None, t.ones(3), training=True
    ),
    "a fractional size of adaptive pooling": lambda t: t.nn.functional.adaptive_avg_pool1d(t.ones(1, 2, 4), [0.5]),
    "linear of another width": lambda t: t.nn.functional.linear(t.ones(2, 3), t.ones(4, 5)),
    "linear of another bias": lambda t: t.nn.functional.linear(t.ones(2, 3), t.ones(4, 3), t.ones(5)),
    "Linear of another width": lambda t: t.nn.Linear(3, 4)(t.ones(2, 5)),
    "Linear of integers": lambda t: t.nn.Linear(3, 4)(t.ones(2, 3, dtype=t.int64)),
    "Linear of half precision": lambda t: t.nn.Linear(3, 4)(t.ones(2, 3, dtype=t.float16)),
    "Linear of a string": lambda t: t.nn.Linear("3", 4),
    "Linear of a negative width": lambda t: t.nn.Linear(-3, 4),
    "Linear without a width": lambda t: t.nn.Linear(3),
    "Bilinear of another width": lambda t: t.nn.Bilinear(2, 3, 4)(t.ones(1, 2), t.ones(1, 4)),
    "conv2d of other channels": lambda t: t.nn.functional.conv2d(t.ones(1, 3, 4, 4), t.ones(2, 4, 3, 3)),
    "conv2d of a row": lambda t: t.nn.functional.conv2d(t.ones(4), t.ones(2, 4, 3, 3)),
    "conv2d of a kernel too large": lambda t: t.nn.functional.conv2d(t.ones(1, 1, 2, 2), t.ones(1, 1, 3, 3)),
    "conv2d of a stride of zero": lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), stride=0),
    "conv2d of a negative padding": lambda t: t.nn.functional.conv2d(
        t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), padding=-1
    ),
    "conv2d of an unknown padding": lambda t: t.nn.functional.conv2d(
        t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), padding="full"
    ),
    "conv2d of the same padding with strides": lambda t: t.nn.functional.conv2d(
        t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), padding="same", stride=2
    ),
    "conv2d of groups that do not divide": lambda t: t.nn.functional.conv2d(
        t.ones(1, 3, 4, 4), t.ones(2, 1, 3, 3), groups=2
    ),
    "conv2d of another bias": lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(2, 1, 3, 3), t.ones(3)),
    "conv2d of two types": lambda t: t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3, dtype=t.float16)),
    "conv2d of integers and floats": lambda t: t.nn.functional.conv2d(
        t.ones(1, 1, 4, 4, dtype=t.int64), t.ones(1, 1, 3, 3)
    ),
    "conv2d of three strides": lambda t: t.nn.functional.conv2d(
        t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), stride=(1, 1, 1)
    ),
    "conv1d of another rank": lambda t: t.nn.functional.conv1d(t.ones(1, 1, 4, 4), t.ones(1, 1, 3)),
    "conv_transpose2d of other channels": lambda t: t.nn.functional.conv_transpose2d(
        t.ones(1, 3, 4, 4), t.ones(2, 4, 3, 3)
    ),
    "conv_transpose2d of more output padding than stride": lambda t: t.nn.functional.conv_transpose2d(
        t.ones(1, 1, 4, 4), t.ones(1, 1, 3, 3), output_padding=2
    ),
    "Conv2d of groups that do not divide": lambda t: t.nn.Conv2d(3, 4, 3, groups=2),
    "Conv2d of no groups": lambda t: t.nn.Conv2d(4, 4, 3, groups=0),
    "Conv2d of an unknown padding mode": lambda t: t.nn.Conv2d(1, 1, 3, padding_mode="nope"),
    "Conv2d of an unknown padding": lambda t: t.nn.Conv2d(1, 1, 3, padding="nope"),
    "Conv2d of other channels": lambda t: t.nn.Conv2d(3, 4, 3)(t.ones(1, 1, 5, 5)),
    "Conv2d of five dimensions": lambda t: t.nn.Conv2d(3, 4, 3)(t.ones(1, 1, 3, 5, 5)),
    "max_pool2d of a window too large": lambda t: t.nn.functional.max_pool2d(t.ones(1, 1, 2, 2), 3),
    "max_pool2d of much padding": lambda t: t.nn.functional.max_pool2d(t.ones(1, 1, 4, 4), 2, padding=2),
    "max_pool2d of a stride of zero": lambda t: t.nn.functional.max_pool2d(t.ones(1, 1, 4, 4), 2, stride=0),
    "max_pool2d of a window of zero": lambda t: t.nn.functional.max_pool2d(t.ones(1, 1, 4, 4), 0),
    "max_pool2d of a row": lambda t: t.nn.functional.max_pool2d(t.ones(4), 2),
    "avg_pool2d of much padding": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 1, 4, 4), 2, padding=2),
    "avg_pool2d of a divisor of zero": lambda t: t.nn.functional.avg_pool2d(t.ones(1, 1, 4, 4), 2, divisor_override=0),
    "adaptive_avg_pool2d of three sizes": lambda t: t.nn.functional.adaptive_avg_pool2d(t.ones(1, 1, 4, 4), (1, 2, 3)),
    "adaptive_avg_pool2d of a negative size": lambda t: t.nn.functional.adaptive_avg_pool2d(t.ones(1, 1, 4, 4), -1),
    "fractional_max_pool2d without a size": lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 1, 4, 4), 2),
    "max_unpool2d of another shape": lambda t: t.nn.functional.max_unpool2d(
        t.ones(1, 1, 2, 2), t.zeros(1, 1, 3, 3, dtype=t.int64), 2
    ),
    "lp_pool2d of a window too large": lambda t: t.nn.functional.lp_pool2d(t.ones(1, 1, 2, 2), 2, 5),
    "pad of an odd number of sizes": lambda t: t.nn.functional.pad(t.ones(2, 3), (1, 1, 1)),
    "pad of too many sizes": lambda t: t.nn.functional.pad(t.ones(2), (1, 1, 1, 1)),
    "pad of an unknown mode": lambda t: t.nn.functional.pad(t.ones(2, 3), (1, 1), mode="nope"),
    "pad by reflection of too much": lambda t: t.nn.functional.pad(t.ones(1, 1, 3), (3, 0), mode="reflect"),
    "pad of a value with reflection": lambda t: t.nn.functional.pad(t.ones(1, 1, 3), (1, 1), mode="reflect", value=1.0),
    "pad that leaves less than nothing": lambda t: t.nn.functional.pad(t.ones(3), (-2, -2)),
    "interpolate without a size": lambda t: t.nn.functional.interpolate(t.ones(1, 1, 4, 4)),
    "interpolate of both size and factor": lambda t: t.nn.functional.interpolate(t.ones(1, 1, 4, 4), 2, 2.0),
    "interpolate of an unknown mode": lambda t: t.nn.functional.interpolate(t.ones(1, 1, 4, 4), 2, mode="nope"),
    "interpolate of another rank": lambda t: t.nn.functional.interpolate(t.ones(1, 1, 4), 2, mode="bilinear"),
    "interpolate of corners with nearest": lambda t: t.nn.functional.interpolate(
        t.ones(1, 1, 4, 4), 2, mode="nearest", align_corners=True
    ),
    "grid_sample of another last size": lambda t: t.nn.functional.grid_sample(t.ones(1, 1, 4, 4), t.ones(1, 2, 2, 3)),
    "grid_sample of another batch": lambda t: t.nn.functional.grid_sample(t.ones(1, 1, 4, 4), t.ones(2, 2, 2, 2)),
    "affine_grid of integers": lambda t: t.nn.functional.affine_grid(t.ones(1, 2, 3, dtype=t.int64), (1, 1, 4, 4)),
    "pixel_shuffle of channels that do not divide": lambda t: t.nn.functional.pixel_shuffle(t.ones(1, 3, 2, 2), 2),
    "fold of another number of windows": lambda t: t.nn.functional.fold(t.ones(1, 4, 5), (3, 3), 2),
    "unfold of a row": lambda t: t.nn.functional.unfold(t.ones(4), 2),
    "batch_norm of one value in training": lambda t: t.nn.functional.batch_norm(
        t.ones(1, 3), None, None, training=True
    ),
    "batch_norm without statistics": lambda t: t.nn.functional.batch_norm(t.ones(2, 3), None, None),
    "batch_norm of other statistics": lambda t: t.nn.functional.batch_norm(t.ones(2, 3), t.ones(4), t.ones(4)),
    "BatchNorm2d of another rank": lambda t: t.nn.BatchNorm2d(3)(t.ones(2, 3)),
    "BatchNorm1d of other features": lambda t: t.nn.BatchNorm1d(3)(t.ones(2, 4)),
    "layer_norm of another shape": lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (4,)),
    "layer_norm of another weight": lambda t: t.nn.functional.layer_norm(t.ones(2, 3), (3,), t.ones(4)),
    "group_norm of groups that do not divide": lambda t: t.nn.functional.group_norm(t.ones(2, 3), 2),
    "GroupNorm of groups that do not divide": lambda t: t.nn.GroupNorm(2, 3),
    "instance_norm of one value": lambda t: t.nn.functional.instance_norm(t.ones(1, 3, 1)),
    "rms_norm of another shape": lambda t: t.nn.functional.rms_norm(t.ones(2, 3), (4,)),
    "local_response_norm of a row": lambda t: t.nn.functional.local_response_norm(t.ones(3), 2),
    "dropout of more than everything": lambda t: t.nn.functional.dropout(t.ones(2), 1.5),
    "Dropout of a negative share": lambda t: t.nn.Dropout(-0.1),
    "dropout2d of a negative share": lambda t: t.nn.functional.dropout2d(t.ones(1, 1, 2, 2), -0.5),
    "alpha_dropout of more than everything": lambda t: t.nn.functional.alpha_dropout(t.ones(2), 2.0),
    "celu of no scale": lambda t: t.nn.functional.celu(t.ones(2), 0.0),
    "celu of integers": lambda t: t.nn.functional.celu(t.tensor([1, 2])),
    "elu of integers": lambda t: t.nn.functional.elu(t.tensor([1, 2])),
    "selu of integers": lambda t: t.nn.functional.selu(t.tensor([1, 2])),
    "gelu of integers": lambda t: t.nn.functional.gelu(t.tensor([1, 2])),
    "gelu of an unknown approximation": lambda t: t.nn.functional.gelu(t.ones(2), approximate="nope"),
    "silu of integers": lambda t: t.nn.functional.silu(t.tensor([1, 2])),
    "softplus of integers": lambda t: t.nn.functional.softplus(t.tensor([1, 2])),
    "hardtanh of limits the wrong way": lambda t: t.nn.functional.hardtanh(t.ones(2), 1.0, -1.0),
    "softshrink of a negative limit": lambda t: t.nn.functional.softshrink(t.ones(2), -1.0),
    "glu of an odd size": lambda t: t.nn.functional.glu(t.ones(3)),
    "glu of a number": lambda t: t.nn.functional.glu(t.tensor(1.0)),
    "prelu of other channels": lambda t: t.nn.functional.prelu(t.ones(2, 3), t.ones(2)),
    "rrelu of limits the wrong way": lambda t: t.nn.functional.rrelu(t.ones(2), 0.5, 0.1, training=True),
    "threshold without a value": lambda t: t.nn.functional.threshold(t.ones(2), 0.1),
    "leaky_relu of a string": lambda t: t.nn.functional.leaky_relu(t.ones(2), "a"),
    "normalize of a dimension outside": lambda t: t.nn.functional.normalize(t.ones(2), dim=1),
    "attention of other widths": lambda t: t.nn.functional.scaled_dot_product_attention(
        t.ones(1, 2, 4), t.ones(1, 3, 5), t.ones(1, 3, 5)
    ),
    "attention of two types": lambda t: t.nn.functional.scaled_dot_product_attention(
        t.ones(1, 2, 4), t.ones(1, 3, 4, dtype=t.float16), t.ones(1, 3, 4)
    ),
    "attention of a causal mask and another": lambda t: t.nn.functional.scaled_dot_product_attention(
        t.ones(1, 2, 4), t.ones(1, 2, 4), t.ones(1, 2, 4), t.ones(2, 2, dtype=t.bool), is_causal=True
    ),
    "attention of integers as a mask": lambda t: t.nn.functional.scaled_dot_product_attention(
        t.ones(1, 2, 4), t.ones(1, 2, 4), t.ones(1, 2, 4), t.ones(2, 2, dtype=t.int64)
    ),
    "MultiheadAttention of heads that do not divide": lambda t: t.nn.MultiheadAttention(5, 2),
    "MultiheadAttention of another width": lambda t: t.nn.MultiheadAttention(4, 2)(*[t.ones(2, 1, 6)] * 3),
    "LSTM of another width": lambda t: t.nn.LSTM(3, 4)(t.ones(2, 1, 5)),
    "LSTM of another state": lambda t: t.nn.LSTM(3, 4)(t.ones(2, 1, 3), (t.ones(1, 1, 5), t.ones(1, 1, 5))),
    "GRU of four dimensions": lambda t: t.nn.GRU(3, 4)(t.ones(2, 1, 1, 3)),
    "RNN of an unknown activation": lambda t: t.nn.RNN(3, 4, nonlinearity="nope"),
    "LSTM of no size": lambda t: t.nn.LSTM(3, 0),
    "LSTM of no layers": lambda t: t.nn.LSTM(3, 4, num_layers=0),
    "LSTM of a dropout beyond one": lambda t: t.nn.LSTM(3, 4, dropout=1.5),
    "LSTM of a projection too large": lambda t: t.nn.LSTM(3, 4, proj_size=4),
    "LSTMCell of another width": lambda t: t.nn.LSTMCell(3, 4)(t.ones(2, 5)),
    "pack_padded_sequence of nothing": lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(2, 1), t.tensor([0])),
    "pack_padded_sequence not sorted": lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(2, 2), t.tensor([1, 2])),
    "pad_sequence of nothing": lambda t: t.nn.utils.rnn.pad_sequence([]),
    "embedding outside": lambda t: t.nn.functional.embedding(t.tensor([3]), t.ones(3, 2)),
    "embedding of negative positions": lambda t: t.nn.functional.embedding(t.tensor([-1]), t.ones(3, 2)),
    "embedding outside just computed": lambda t: t.nn.functional.embedding(t.tensor([1]) + 4, t.ones(3, 2)),
    "embedding of floats": lambda t: t.nn.functional.embedding(t.ones(2), t.ones(3, 2)),
    "embedding of a row": lambda t: t.nn.functional.embedding(t.tensor([0]), t.ones(3)),
    "embedding of padding outside": lambda t: t.nn.functional.embedding(t.tensor([0]), t.ones(3, 2), padding_idx=3),
    "Embedding of padding outside": lambda t: t.nn.Embedding(3, 2, padding_idx=5),
    "Embedding of other weights": lambda t: t.nn.Embedding(3, 2, _weight=t.ones(4, 2)),
    "Embedding from a row": lambda t: t.nn.Embedding.from_pretrained(t.ones(3)),
    "embedding_bag without offsets": lambda t: t.nn.functional.embedding_bag(t.tensor([0]), t.ones(3, 2)),
    "embedding_bag of offsets that do not begin at zero": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0, 1]), t.ones(3, 2), t.tensor([1])
    ),
    "embedding_bag of an unknown mode": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0]), t.ones(3, 2), t.tensor([0]), mode="nope"
    ),
    "embedding_bag of weights and means": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0]), t.ones(3, 2), t.tensor([0]), mode="mean", per_sample_weights=t.ones(1)
    ),
    "embedding_bag outside": lambda t: t.nn.functional.embedding_bag(t.tensor([[3]]), t.ones(3, 2)),
    "embedding_bag of offsets behind the end": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0, 1]), t.ones(3, 2), t.tensor([0, 7])
    ),
    "embedding_bag of offsets the wrong way": lambda t: t.nn.functional.embedding_bag(
        t.tensor([0, 1]), t.ones(3, 2), t.tensor([1, 0])
    ),
    "embedding_bag of offsets with a matrix": lambda t: t.nn.functional.embedding_bag(
        t.tensor([[0]]), t.ones(3, 2), t.tensor([0])
    ),
    "one_hot outside": lambda t: t.nn.functional.one_hot(t.tensor([3]), 3),
    "one_hot of negative classes": lambda t: t.nn.functional.one_hot(t.tensor([-1]), 3),
    "one_hot of floats": lambda t: t.nn.functional.one_hot(t.ones(2), 3),
    "one_hot of nothing": lambda t: t.nn.functional.one_hot(t.zeros(0, dtype=t.int64)),
    "one_hot of a negative number of classes": lambda t: t.nn.functional.one_hot(t.tensor([1]), -2),
}

LOSSES: Mistakes = {
    "cross_entropy of a label outside": lambda t: t.nn.functional.cross_entropy(t.zeros(1, 3), t.tensor([3])),
    "cross_entropy of a negative label": lambda t: t.nn.functional.cross_entropy(t.zeros(1, 3), t.tensor([-1])),
    "cross_entropy of another batch": lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.tensor([0, 1, 2])),
    "cross_entropy of labels of floats": lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.ones(2)),
    "cross_entropy of int32": lambda t: t.nn.functional.cross_entropy(t.zeros(2, 3), t.zeros(2, dtype=t.int32)),
    "cross_entropy of smoothing beyond one": lambda t: t.nn.functional.cross_entropy(
        t.zeros(2, 3), t.tensor([0, 1]), label_smoothing=1.5
    ),
    "cross_entropy of other weights": lambda t: t.nn.functional.cross_entropy(
        t.zeros(2, 3), t.tensor([0, 1]), t.ones(2)
    ),
    "cross_entropy of an unknown reduction": lambda t: t.nn.functional.cross_entropy(
        t.zeros(2, 3), t.tensor([0, 1]), reduction="average"
    ),
    "cross_entropy of ignored probabilities": lambda t: t.nn.functional.cross_entropy(
        t.zeros(2, 3), t.ones(2, 3), ignore_index=1
    ),
    "nll_loss of a label outside": lambda t: t.nn.functional.nll_loss(t.zeros(1, 3), t.tensor([3])),
    "nll_loss of another batch": lambda t: t.nn.functional.nll_loss(t.zeros(2, 3), t.tensor([0])),
    "nll_loss of a number": lambda t: t.nn.functional.nll_loss(t.tensor(1.0), t.tensor(0)),
    "mse_loss of other shapes": lambda t: t.nn.functional.mse_loss(t.ones(2, 3), t.ones(4)),
    "mse_loss of an unknown reduction": lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), reduction="nope"),
    "l1_loss of a list": lambda t: t.nn.functional.l1_loss(t.ones(2), [1.0, 1.0]),
    "smooth_l1_loss of a negative width": lambda t: t.nn.functional.smooth_l1_loss(t.ones(2), t.ones(2), beta=-1.0),
    "huber_loss of no width": lambda t: t.nn.functional.huber_loss(t.ones(2), t.ones(2), delta=0.0),
    "binary_cross_entropy beyond one": lambda t: t.nn.functional.binary_cross_entropy(t.ones(2) * 2, t.ones(2)),
    "binary_cross_entropy of a target beyond one": lambda t: t.nn.functional.binary_cross_entropy(
        t.ones(2) / 2, t.tensor([0.5, 2.0])
    ),
    "binary_cross_entropy of a target that is not a number": lambda t: t.nn.functional.binary_cross_entropy(
        t.ones(2) / 2, t.tensor([0.5, t.nan])
    ),
    "binary_cross_entropy of other shapes": lambda t: t.nn.functional.binary_cross_entropy(t.ones(2), t.ones(2, 1)),
    "binary_cross_entropy of integers": lambda t: t.nn.functional.binary_cross_entropy(t.ones(2), t.tensor([1, 0])),
    "binary_cross_entropy_with_logits of other shapes": lambda t: t.nn.functional.binary_cross_entropy_with_logits(
        t.ones(2), t.ones(3)
    ),
    "kl_div of an unknown reduction": lambda t: t.nn.functional.kl_div(t.ones(2), t.ones(2), reduction="nope"),
    "gaussian_nll_loss of negative variances": lambda t: t.nn.functional.gaussian_nll_loss(
        t.ones(2), t.ones(2), -t.ones(2)
    ),
    "gaussian_nll_loss of other shapes": lambda t: t.nn.functional.gaussian_nll_loss(
        t.ones(2, 3), t.ones(2, 3), t.ones(4)
    ),
    "poisson_nll_loss of an unknown reduction": lambda t: t.nn.functional.poisson_nll_loss(
        t.ones(2), t.ones(2), reduction="nope"
    ),
    "hinge_embedding_loss of other shapes": lambda t: t.nn.functional.hinge_embedding_loss(t.ones(2), t.ones(3)),
    "cosine_embedding_loss of other ranks": lambda t: t.nn.functional.cosine_embedding_loss(
        t.ones(2, 3), t.ones(2, 3), t.ones(2, 3)
    ),
    "margin_ranking_loss of other ranks": lambda t: t.nn.functional.margin_ranking_loss(
        t.ones(2), t.ones(2), t.ones(2, 1)
    ),
    "triplet_margin_loss of other ranks": lambda t: t.nn.functional.triplet_margin_loss(
        t.ones(2, 3), t.ones(3), t.ones(2, 3)
    ),
    "triplet_margin_loss of no margin": lambda t: t.nn.functional.triplet_margin_loss(
        t.ones(2, 3), t.ones(2, 3), t.ones(2, 3), margin=-1.0
    ),
    "multi_margin_loss of a label outside": lambda t: t.nn.functional.multi_margin_loss(t.ones(1, 3), t.tensor([3])),
    "multi_margin_loss of a third power": lambda t: t.nn.functional.multi_margin_loss(t.ones(1, 3), t.tensor([0]), p=3),
    "multilabel_margin_loss of another shape": lambda t: t.nn.functional.multilabel_margin_loss(
        t.ones(1, 3), t.tensor([[0, 1]])
    ),
    "soft_margin_loss of other shapes": lambda t: t.nn.functional.soft_margin_loss(t.ones(2), t.ones(3)),
    "ctc_loss of lengths too long": lambda t: t.nn.functional.ctc_loss(
        t.zeros(2, 1, 3), t.tensor([[1]]), t.tensor([5]), t.tensor([1])
    ),
    "ctc_loss of a blank outside": lambda t: t.nn.functional.ctc_loss(
        t.zeros(2, 1, 3), t.tensor([[1]]), t.tensor([2]), t.tensor([1]), blank=7
    ),
    "CrossEntropyLoss of an unknown option": lambda t: t.nn.CrossEntropyLoss(smoothing=0.1),
    "MSELoss without a target": lambda t: t.nn.MSELoss()(t.ones(2)),
    "BCELoss below zero": lambda t: t.nn.BCELoss()(-t.ones(2), t.ones(2)),
    "AdaptiveLogSoftmaxWithLoss of cutoffs not in order": lambda t: t.nn.AdaptiveLogSoftmaxWithLoss(4, 10, [5, 3]),
    "pairwise_distance of other shapes": lambda t: t.nn.functional.pairwise_distance(t.ones(2, 3), t.ones(2, 4)),
}

MODULES: Mistakes = {
    "Parameter of integers": lambda t: t.nn.Parameter(t.tensor([1, 2])),
    "a module's call without a forward": lambda t: t.nn.Module()(1),
    "a parameter that is a tensor": lambda t: t.nn.Module().register_parameter("a", t.ones(2)),
    "a parameter that is a result": lambda t: t.nn.Module().register_parameter("a", t.nn.Parameter(t.ones(2)) * 2),
    "a parameter's name with a dot": lambda t: t.nn.Module().register_parameter("a.b", t.nn.Parameter(t.ones(2))),
    "a parameter without a name": lambda t: t.nn.Module().register_parameter("", t.nn.Parameter(t.ones(2))),
    "a parameter's name that is taken": lambda t: t.nn.Linear(1, 1).register_parameter("forward", None),
    "a buffer that is a list": lambda t: t.nn.Module().register_buffer("a", [1.0]),
    "a buffer's name that is a number": lambda t: t.nn.Module().register_buffer(1, t.ones(2)),
    "a buffer's name that is taken": lambda t: t.nn.Linear(1, 1).register_buffer("weight", t.ones(2)),
    "a module that is a number": lambda t: t.nn.Module().add_module("a", 5),
    "a module's name with a dot": lambda t: t.nn.Module().add_module("a.b", t.nn.Linear(1, 1)),
    "a parameter assigned a tensor": lambda t: setattr(t.nn.Linear(1, 1), "weight", t.ones(1, 1)),
    "a parameter before the constructor": lambda t: _uninitialised(t, "Parameter"),
    "a module before the constructor": lambda t: _uninitialised(t, "Linear"),
    "an attribute that a module lacks": lambda t: t.nn.Linear(1, 1).nope,
    "a submodule that does not exist": lambda t: t.nn.Linear(1, 1).get_submodule("nope"),
    "a parameter that does not exist": lambda t: t.nn.Linear(1, 1).get_parameter("nope"),
    "a buffer that is a parameter": lambda t: t.nn.Linear(1, 1).get_buffer("weight"),
    "a state with a missing key": lambda t: t.nn.Linear(1, 1).load_state_dict({"weight": t.ones(1, 1)}),
    "a state with an unexpected key": lambda t: t.nn.Linear(1, 1, bias=False).load_state_dict(
        {"weight": t.ones(1, 1), "bias": t.ones(1)}
    ),
    "a state of another shape": lambda t: t.nn.Linear(1, 1, bias=False).load_state_dict({"weight": t.ones(2, 2)}),
    "a state that is a list": lambda t: t.nn.Linear(1, 1).load_state_dict([1]),
    "a state of numbers": lambda t: t.nn.Linear(1, 1, bias=False).load_state_dict({"weight": 1.0}),
    "a module moved to integers": lambda t: t.nn.Linear(1, 1).to(t.int64),
    "a module moved to a number's device": lambda t: t.nn.Linear(1, 1).to("nope"),
    "train of a string": lambda t: t.nn.Linear(1, 1).train("yes"),
    "Sequential of a number": lambda t: t.nn.Sequential(5),
    "Sequential outside": lambda t: t.nn.Sequential(t.nn.ReLU())[3],
    "Sequential of parts that do not fit": lambda t: t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Linear(2, 3))(
        t.ones(1, 2)
    ),
    "ModuleList called": lambda t: t.nn.ModuleList([t.nn.ReLU()])(t.ones(2)),
    "ModuleList of a function": lambda t: t.nn.ModuleList([abs]),
    "ModuleList outside": lambda t: t.nn.ModuleList([t.nn.ReLU()])[1],
    "ModuleDict of a missing key": lambda t: t.nn.ModuleDict({"a": t.nn.ReLU()})["b"],
    "ModuleDict updated with a number": lambda t: t.nn.ModuleDict().update(5),
    "ParameterList outside": lambda t: t.nn.ParameterList([t.ones(2)])[3],
    "apply of a number": lambda t: t.nn.Linear(1, 1).apply(5),
    "requires_grad of a string": lambda t: t.nn.Linear(1, 1).requires_grad_("no"),
    "kaiming of an unknown activation": lambda t: t.nn.init.kaiming_uniform_(t.empty(2, 2), nonlinearity="nope"),
    "kaiming of an unknown mode": lambda t: t.nn.init.kaiming_uniform_(t.empty(2, 2), mode="nope"),
    "xavier of a row": lambda t: t.nn.init.xavier_uniform_(t.empty(2)),
    "orthogonal of a row": lambda t: t.nn.init.orthogonal_(t.empty(2)),
    "eye_ of a row": lambda t: t.nn.init.eye_(t.empty(2)),
    "dirac_ of a matrix": lambda t: t.nn.init.dirac_(t.empty(2, 2)),
    "sparse_ of a row": lambda t: t.nn.init.sparse_(t.empty(2), 0.5),
    "gain of an unknown activation": lambda t: t.nn.init.calculate_gain("nope"),
    "PixelShuffle of a row": lambda t: t.nn.PixelShuffle(2)(t.ones(4)),
    "Unflatten of strings": lambda t: t.nn.Unflatten(0, "a"),
    "Flatten of a dimension outside": lambda t: t.nn.Flatten(1, 5)(t.ones(2, 2)),
    "Softmax of a dimension outside": lambda t: t.nn.Softmax(5)(t.ones(2, 2)),
    "Upsample of nothing": lambda t: t.nn.Upsample()(t.ones(1, 1, 2, 2)),
    "TransformerEncoderLayer of heads that do not divide": lambda t: t.nn.TransformerEncoderLayer(5, 2),
    "Transformer of other widths": lambda t: t.nn.Transformer(4, 2, 1, 1, 4)(t.ones(2, 1, 4), t.ones(2, 1, 6)),
    "clip_grad_norm_ of infinity refused": lambda t: t.nn.utils.clip_grad_norm_(
        [_with_gradient(t, t.inf)], 1.0, error_if_nonfinite=True
    ),
    "vector_to_parameters of a list": lambda t: t.nn.utils.vector_to_parameters([1.0], []),
    "weight_norm of a missing parameter": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(1, 1), "nope"),
    "spectral_norm of no steps": lambda t: t.nn.utils.parametrizations.spectral_norm(
        t.nn.Linear(1, 1), n_power_iterations=0
    ),
    "prune of more than everything": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 1.5),
    "prune of a missing parameter": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "nope", 0.5),
}


def _uninitialised(t: Any, part: str) -> Any:
    class Early(t.nn.Module):
        def __init__(self) -> None:
            self.part = t.nn.Parameter(t.ones(1)) if part == "Parameter" else t.nn.Linear(1, 1)

    return Early()


def _with_gradient(t: Any, value: float) -> Any:
    parameter = t.ones(2, requires_grad=True)
    (parameter * value).sum().backward()
    return parameter


GRADIENTS: Mistakes = {
    "backward of several elements": lambda t: (t.ones(2, requires_grad=True) * 2).backward(),
    "backward of what needs no gradient": lambda t: t.ones(()).backward(),
    "backward twice": lambda t: [(y := (t.ones(2, requires_grad=True) ** 2).sum()).backward(), y.backward()],
    "backward of another shape": lambda t: (t.ones(2, requires_grad=True) * 2).backward(t.ones(3)),
    "backward of another type": lambda t: (t.ones(2, requires_grad=True) * 2).backward(t.ones(2, dtype=t.complex64)),
    "backward of a number": lambda t: (t.ones(2, requires_grad=True) * 2).backward(1.0),
    "backward of integers": lambda t: t.tensor([1, 2]).sum().backward(),
    "backward under no_grad": lambda t: _under(
        t.no_grad(), lambda: (t.ones(2, requires_grad=True) * 2).sum()
    ).backward(),
    "backward after a change": lambda t: _changed(t),
    "backward of inputs that are results": lambda t: t.ones(2, requires_grad=True).sum().backward(inputs=[]),
    "grad of what is not used": lambda t: t.autograd.grad(
        t.ones(2, requires_grad=True).sum(), t.ones(2, requires_grad=True)
    ),
    "grad of what needs no gradient": lambda t: t.autograd.grad(t.ones(2).sum(), t.ones(2)),
    "grad of no inputs": lambda t: t.autograd.grad(t.ones(2, requires_grad=True).sum(), []),
    "grad of numbers": lambda t: t.autograd.grad(1.0, t.ones(2, requires_grad=True)),
    "a Function that returns too few gradients": lambda t: _function(t, 2, lambda gradient: (gradient,)),
    "a Function that returns a gradient of another shape": lambda t: _function(
        t, 1, lambda gradient: gradient.new_ones(3)
    ),
    "a Function that returns a list": lambda t: _function(t, 1, lambda gradient: "a"),
    "a Function that is called": lambda t: t.autograd.Function()(t.ones(2)),
    "a hook on what needs no gradient": lambda t: t.ones(2).register_hook(abs),
    "a hook that returns a string": lambda t: _hooked(t, lambda gradient: "a"),
    "a hook that returns another shape": lambda t: _hooked(t, lambda gradient: gradient.new_ones(5)),
    "retain_grad of what needs no gradient": lambda t: t.ones(2).retain_grad(),
    "deepcopy of a result": lambda t: __import__("copy").deepcopy(t.ones(2, requires_grad=True) * 2),
    "jacobian of a number": lambda t: t.autograd.functional.jacobian(lambda x: 5, t.ones(2)),
    "hessian of several elements": lambda t: t.autograd.functional.hessian(lambda x: x * 2, t.ones(2)),
    "vjp of another shape": lambda t: t.autograd.functional.vjp(lambda x: x * 2, t.ones(2), t.ones(3)),
    "vjp without a vector": lambda t: t.autograd.functional.vjp(lambda x: x * 2, t.ones(2)),
    "func.grad of several elements": lambda t: t.func.grad(lambda x: x * 2)(t.ones(2)),
    "func.grad of a number": lambda t: t.func.grad(lambda x: 5.0)(t.ones(())),
    "func.grad of integers": lambda t: t.func.grad(lambda x: x.sum())(t.tensor([1, 2])),
    "func.grad of an argument that is none": lambda t: t.func.grad(lambda x: x.sum(), argnums=1)(t.ones(2)),
    "func.grad of a number's argument": lambda t: t.func.grad(lambda x: x * 2.0)(3.0),
    "vmap of a dimension outside": lambda t: t.func.vmap(lambda x: x, in_dims=2)(t.ones(2)),
    "vmap of other sizes": lambda t: t.func.vmap(t.add)(t.ones(2), t.ones(3)),
    "vmap of a number": lambda t: t.func.vmap(t.sin)(t.tensor(1.0)),
    "vmap of no dimensions": lambda t: t.func.vmap(t.sin, in_dims=None)(t.ones(2)),
    "vmap of too many dimensions": lambda t: t.func.vmap(t.sin, in_dims=(0, 0))(t.ones(2)),
    "vmap of a function that returns a number": lambda t: t.func.vmap(lambda x: 5)(t.ones(2)),
    "vmap that reads an element": lambda t: t.func.vmap(lambda x: x.item())(t.ones(2)),
    "vmap that decides by an element": lambda t: t.func.vmap(lambda x: x if x > 0 else -x)(t.ones(2)),
    "vmap of an unknown randomness": lambda t: t.func.vmap(t.sin, randomness="nope")(t.ones(2)),
    "vmap of random numbers refused": lambda t: t.func.vmap(lambda x: x + t.rand(()))(t.ones(2)),
    "func.jvp of another shape": lambda t: t.func.jvp(t.sin, (t.ones(2),), (t.ones(3),)),
    "func.jvp of no tuple": lambda t: t.func.jvp(t.sin, t.ones(2), t.ones(2)),
    "func.jvp of another number": lambda t: t.func.jvp(t.sin, (t.ones(2),), (t.ones(2), t.ones(2))),
    "func.vjp of a number": lambda t: t.func.vjp(lambda x: 5, t.ones(2)),
    "jacrev of a number": lambda t: t.func.jacrev(lambda x: 5)(t.ones(2)),
    "hessian of integers": lambda t: t.func.hessian(lambda x: x.sum())(t.tensor([1, 2])),
    "functional_call of an unknown parameter": lambda t: t.func.functional_call(
        t.nn.Linear(1, 1), {"nope": t.ones(1)}, (t.ones(1, 1),), strict=True
    ),
    "functional_call of no dictionary": lambda t: t.func.functional_call(t.nn.Linear(1, 1), 5, (t.ones(1, 1),)),
    "stack_module_state of nothing": lambda t: t.func.stack_module_state([]),
    "set_grad_enabled of a tensor's requires": lambda t: t.ones(2).requires_grad_("yes"),
    "gradcheck of no gradient": lambda t: t.autograd.gradcheck(lambda x: x, (t.ones(2),)),
}


def _under(context: Any, function: Any) -> Any:
    with context:
        return function()


def _changed(t: Any) -> None:
    x = t.ones(2, requires_grad=True)
    middle = x * 2
    result = (middle**2).sum()
    middle.add_(1)
    result.backward()


def _hooked(t: Any, hook: Any) -> None:
    x = t.ones(2, requires_grad=True)
    x.register_hook(hook)
    x.sum().backward()


def _function(t: Any, count: int, gradient: Any) -> None:
    class Own(t.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            return arguments[0] * 2

        @staticmethod
        def backward(ctx: Any, seed: Any) -> Any:
            return gradient(seed)

    Own.apply(*[t.ones(2, requires_grad=True) for _ in range(count)]).sum().backward()


TRAINING: Mistakes = {
    "SGD of no parameters": lambda t: t.optim.SGD([], lr=0.1),
    "SGD of a tensor": lambda t: t.optim.SGD(t.ones(2, requires_grad=True), lr=0.1),
    "SGD of a negative rate": lambda t: t.optim.SGD(_parameters(t), lr=-0.1),
    "SGD of a negative momentum": lambda t: t.optim.SGD(_parameters(t), lr=0.1, momentum=-1.0),
    "SGD of a negative decay": lambda t: t.optim.SGD(_parameters(t), lr=0.1, weight_decay=-1.0),
    "SGD of Nesterov without momentum": lambda t: t.optim.SGD(_parameters(t), lr=0.1, nesterov=True),
    "SGD of numbers": lambda t: t.optim.SGD([1.0], lr=0.1),
    "SGD of a result": lambda t: t.optim.SGD([t.ones(2, requires_grad=True) * 2], lr=0.1),
    "SGD of a string as rate": lambda t: t.optim.SGD(_parameters(t), lr="0.1"),
    "SGD of an unknown option": lambda t: t.optim.SGD(_parameters(t), lr=0.1, momentom=0.9),
    "SGD of a parameter twice": lambda t: t.optim.SGD([{"params": (p := _parameters(t))}, {"params": p}], lr=0.1),
    "Adam of betas beyond one": lambda t: t.optim.Adam(_parameters(t), betas=(0.9, 1.5)),
    "Adam of one beta": lambda t: t.optim.Adam(_parameters(t), betas=0.9),
    "Adam of a negative epsilon": lambda t: t.optim.Adam(_parameters(t), eps=-1.0),
    "Adam of a negative rate": lambda t: t.optim.Adam(_parameters(t), lr=-1.0),
    "AdamW of a negative decay": lambda t: t.optim.AdamW(_parameters(t), weight_decay=-1.0),
    "Adagrad of a negative start": lambda t: t.optim.Adagrad(_parameters(t), initial_accumulator_value=-1.0),
    "Adadelta of rho beyond one": lambda t: t.optim.Adadelta(_parameters(t), rho=1.5),
    "RMSprop of a negative alpha": lambda t: t.optim.RMSprop(_parameters(t), alpha=-1.0),
    "Rprop of factors the wrong way": lambda t: t.optim.Rprop(_parameters(t), etas=(1.5, 0.5)),
    "NAdam of a negative momentum decay": lambda t: t.optim.NAdam(_parameters(t), momentum_decay=-1.0),
    "RAdam of betas beyond one": lambda t: t.optim.RAdam(_parameters(t), betas=(1.0, 0.9)),
    "LBFGS of two groups": lambda t: t.optim.LBFGS([{"params": _parameters(t)}, {"params": _parameters(t)}]),
    "LBFGS without a closure": lambda t: t.optim.LBFGS(_parameters(t)).step(),
    "an optimiser's state of other groups": lambda t: t.optim.SGD(_parameters(t), lr=0.1).load_state_dict(
        {"state": {}, "param_groups": []}
    ),
    "an optimiser's state of other parameters": lambda t: t.optim.SGD(_parameters(t), lr=0.1).load_state_dict(
        t.optim.SGD([*_parameters(t), *_parameters(t)], lr=0.1).state_dict()
    ),
    "a group that is no dictionary": lambda t: t.optim.SGD(_parameters(t), lr=0.1).add_param_group([1]),
    "StepLR of no optimiser": lambda t: t.optim.lr_scheduler.StepLR(t.ones(2), 2),
    "LambdaLR of too many functions": lambda t: t.optim.lr_scheduler.LambdaLR(_optimizer(t), [abs, abs]),
    "OneCycleLR without steps": lambda t: t.optim.lr_scheduler.OneCycleLR(_optimizer(t), 0.1),
    "OneCycleLR of a share beyond one": lambda t: t.optim.lr_scheduler.OneCycleLR(
        _optimizer(t), 0.1, total_steps=5, pct_start=2.0
    ),
    "CosineAnnealingWarmRestarts of no steps": lambda t: t.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        _optimizer(t), 0
    ),
    "ReduceLROnPlateau of a factor of one": lambda t: t.optim.lr_scheduler.ReduceLROnPlateau(_optimizer(t), factor=1.0),
    "ReduceLROnPlateau of an unknown mode": lambda t: t.optim.lr_scheduler.ReduceLROnPlateau(_optimizer(t), "nope"),
    "ReduceLROnPlateau without a metric": lambda t: t.optim.lr_scheduler.ReduceLROnPlateau(_optimizer(t)).step(),
    "CyclicLR of an unknown mode": lambda t: t.optim.lr_scheduler.CyclicLR(_optimizer(t), 0.1, 0.2, mode="nope"),
    "SequentialLR of other milestones": lambda t: t.optim.lr_scheduler.SequentialLR(
        (o := _optimizer(t)), [t.optim.lr_scheduler.ConstantLR(o)], [1, 2]
    ),
    "ConstantLR of a factor beyond one": lambda t: t.optim.lr_scheduler.ConstantLR(_optimizer(t), factor=2.0),
    "autocast of an unknown device": lambda t: t.autocast("nope").__enter__(),
    "GradScaler that is stepped before it scales": lambda t: t.amp.GradScaler("cpu").step(_optimizer(t)),
    "clip_grad_norm_ of a string": lambda t: t.nn.utils.clip_grad_norm_([_with_gradient(t, 1.0)], "a"),
    "DataLoader of no batch": lambda t: t.utils.data.DataLoader([1, 2], batch_size=0),
    "DataLoader of a negative batch": lambda t: t.utils.data.DataLoader([1, 2], batch_size=-1),
    "DataLoader of negative workers": lambda t: t.utils.data.DataLoader([1, 2], num_workers=-1),
    "DataLoader of a sampler and shuffling": lambda t: t.utils.data.DataLoader([1, 2], shuffle=True, sampler=[0, 1]),
    "DataLoader of two ways to batch": lambda t: t.utils.data.DataLoader([1, 2], batch_size=2, batch_sampler=[[0]]),
    "DataLoader of prefetching without workers": lambda t: t.utils.data.DataLoader([1, 2], prefetch_factor=2),
    "DataLoader of a negative timeout": lambda t: t.utils.data.DataLoader([1, 2], timeout=-1),
    "DataLoader of persistent workers that are none": lambda t: t.utils.data.DataLoader([1], persistent_workers=True),
    "DataLoader of a shuffled stream": lambda t: t.utils.data.DataLoader(_stream(t), shuffle=True),
    "DataLoader changed afterwards": lambda t: setattr(t.utils.data.DataLoader([1, 2]), "batch_size", 5),
    "DataLoader of samples of other shapes": lambda t: list(
        t.utils.data.DataLoader([t.ones(2), t.ones(3)], batch_size=2)
    ),
    "DataLoader of objects": lambda t: list(t.utils.data.DataLoader([object()])),
    "DataLoader of None": lambda t: list(t.utils.data.DataLoader([None])),
    "length of a stream": lambda t: len(t.utils.data.DataLoader(_stream(t))),
    "TensorDataset of other lengths": lambda t: t.utils.data.TensorDataset(t.ones(2), t.ones(3)),
    "Subset outside": lambda t: t.utils.data.Subset([1, 2], [5])[0],
    "random_split of other lengths": lambda t: t.utils.data.random_split([1, 2, 3], [1, 1]),
    "random_split of shares beyond one": lambda t: t.utils.data.random_split([1, 2, 3], [0.9, 0.9]),
    "ConcatDataset of nothing": lambda t: t.utils.data.ConcatDataset([]),
    "ConcatDataset outside": lambda t: t.utils.data.ConcatDataset([[1, 2]])[-5],
    "RandomSampler of no samples": lambda t: t.utils.data.RandomSampler([1, 2], num_samples=0),
    "RandomSampler of a string": lambda t: t.utils.data.RandomSampler([1, 2], replacement="yes"),
    "WeightedRandomSampler of no samples": lambda t: t.utils.data.WeightedRandomSampler([1.0], 0),
    "WeightedRandomSampler of a matrix": lambda t: t.utils.data.WeightedRandomSampler(t.ones(2, 2), 1),
    "BatchSampler of no batch": lambda t: t.utils.data.BatchSampler([0, 1], 0, False),
    "BatchSampler of a string": lambda t: t.utils.data.BatchSampler([0, 1], 2, "yes"),
    "a Dataset without items": lambda t: t.utils.data.Dataset()[0],
    "default_collate of other lengths": lambda t: t.utils.data.default_collate([[1, 2], [1]]),
    "default_collate of nothing": lambda t: t.utils.data.default_collate([]),
}


def _parameters(t: Any) -> Any:
    return [t.ones(2, requires_grad=True)]


def _optimizer(t: Any) -> Any:
    return t.optim.SGD(_parameters(t), lr=0.1)


def _stream(t: Any) -> Any:
    class Stream(t.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter([1, 2])

    return Stream()


RANDOMNESS: Mistakes = {
    "rand of a negative size": lambda t: t.rand(-1),
    "rand of integers": lambda t: t.rand(2, dtype=t.int64),
    "rand of a string": lambda t: t.rand("a"),
    "randn of integers": lambda t: t.randn(2, dtype=t.int64),
    "randint of limits the wrong way": lambda t: t.randint(5, 2, (2,)),
    "randint of equal limits": lambda t: t.randint(2, 2, (2,)),
    "randint without a size": lambda t: t.randint(5),
    "randint of a size that is a number": lambda t: t.randint(0, 5, 2),
    "randint beyond its type": lambda t: t.randint(0, 500, (2,), dtype=t.uint8),
    "randperm of a negative number": lambda t: t.randperm(-1),
    "randperm of a fraction": lambda t: t.randperm(2.5),
    "randperm beyond its type": lambda t: t.randperm(300, dtype=t.uint8),
    "normal of a negative deviation": lambda t: t.normal(0.0, -1.0, (2,)),
    "normal of negative deviations": lambda t: t.normal(t.zeros(2), -t.ones(2)),
    "normal without a size": lambda t: t.normal(0.0, 1.0),
    "normal of other shapes": lambda t: t.normal(t.zeros(2), t.ones(3)),
    "normal_ of a negative deviation": lambda t: t.ones(2).normal_(0, -1),
    "normal_ of integers": lambda t: t.tensor([1]).normal_(),
    "uniform_ of limits the wrong way": lambda t: t.ones(2).uniform_(2, 1),
    "uniform_ of integers": lambda t: t.tensor([1]).uniform_(),
    "exponential_ of a negative rate": lambda t: t.ones(2).exponential_(-1),
    "geometric_ of no chance": lambda t: t.ones(2).geometric_(0.0),
    "geometric_ of a certain end": lambda t: t.ones(2).geometric_(1.5),
    "cauchy_ of a negative scale": lambda t: t.ones(2).cauchy_(0, -1),
    "log_normal_ of a negative deviation": lambda t: t.ones(2).log_normal_(0, -1),
    "random_ of limits the wrong way": lambda t: t.ones(2).random_(5, 2),
    "bernoulli beyond one": lambda t: t.bernoulli(t.tensor([2.0])),
    "bernoulli of a chance beyond one": lambda t: t.bernoulli(t.ones(2), 1.5),
    "bernoulli of integers": lambda t: t.bernoulli(t.tensor([1])),
    "bernoulli_ of a negative chance": lambda t: t.ones(2).bernoulli_(-0.5),
    "multinomial of more than there is": lambda t: t.multinomial(t.ones(2), 3),
    "multinomial of no samples": lambda t: t.multinomial(t.ones(2), 0),
    "multinomial of negative weights": lambda t: t.multinomial(t.tensor([1.0, -1.0]), 1),
    "multinomial of no weight": lambda t: t.multinomial(t.zeros(2), 1),
    "multinomial of integers": lambda t: t.multinomial(t.tensor([1, 2]), 1),
    "multinomial of three dimensions": lambda t: t.multinomial(t.ones(2, 2, 2), 1),
    "multinomial of infinity": lambda t: t.multinomial(t.tensor([1.0, t.inf]), 1),
    "poisson of a negative rate": lambda t: t.poisson(-t.ones(2)),
    "a Generator of an unknown device": lambda t: t.Generator("nope"),
    "a Generator that is a number": lambda t: t.rand(2, generator=5),
    "a seed that is a string": lambda t: t.manual_seed("a"),
    "a generator's seed that is a list": lambda t: t.Generator().manual_seed([1]),
    "a state of another size": lambda t: t.set_rng_state(t.zeros(3, dtype=t.uint8)),
    "a state of floats": lambda t: t.Generator().set_state(t.zeros(5056)),
    "Normal of a negative scale": lambda t: t.distributions.Normal(0.0, -1.0),
    "Normal of not a number": lambda t: t.distributions.Normal(t.nan, 1.0),
    "Normal of a string": lambda t: t.distributions.Normal("a", 1.0),
    "Normal of other shapes": lambda t: t.distributions.Normal(t.zeros(2), t.ones(3)),
    "Normal's density of a string": lambda t: t.distributions.Normal(0.0, 1.0).log_prob("a"),
    "Uniform of limits the wrong way": lambda t: t.distributions.Uniform(2.0, 1.0),
    "Uniform's density outside": lambda t: t.distributions.Uniform(0.0, 1.0).log_prob(t.tensor(2.0)),
    "Bernoulli beyond one": lambda t: t.distributions.Bernoulli(1.5),
    "Bernoulli of both": lambda t: t.distributions.Bernoulli(0.5, 0.5),
    "Bernoulli of neither": lambda t: t.distributions.Bernoulli(),
    "Bernoulli's density of a half": lambda t: t.distributions.Bernoulli(0.5).log_prob(t.tensor(0.5)),
    "Categorical of negative weights": lambda t: t.distributions.Categorical(t.tensor([-1.0, 2.0])),
    "Categorical of a number": lambda t: t.distributions.Categorical(t.tensor(0.5)),
    "Categorical's density outside": lambda t: t.distributions.Categorical(t.ones(2)).log_prob(t.tensor(5)),
    "Gamma of a negative rate": lambda t: t.distributions.Gamma(1.0, -1.0),
    "Beta of a negative concentration": lambda t: t.distributions.Beta(-1.0, 1.0),
    "Dirichlet of a number": lambda t: t.distributions.Dirichlet(t.tensor(1.0)),
    "Dirichlet of negative concentrations": lambda t: t.distributions.Dirichlet(-t.ones(2)),
    "Poisson of a negative rate": lambda t: t.distributions.Poisson(-1.0),
    "Exponential of a negative rate": lambda t: t.distributions.Exponential(-1.0),
    "Binomial of a negative count": lambda t: t.distributions.Binomial(-1, t.tensor(0.5)),
    "Multinomial of a fraction": lambda t: t.distributions.Multinomial(2.5, t.ones(2)),
    "MultivariateNormal without a covariance": lambda t: t.distributions.MultivariateNormal(t.zeros(2)),
    "MultivariateNormal of a covariance that is not positive": lambda t: t.distributions.MultivariateNormal(
        t.zeros(2), -t.eye(2)
    ),
    "MultivariateNormal of a row": lambda t: t.distributions.MultivariateNormal(t.zeros(2), t.ones(2)),
    "LKJCholesky of one dimension": lambda t: t.distributions.LKJCholesky(1),
    "Independent of more than there is": lambda t: t.distributions.Independent(t.distributions.Normal(0.0, 1.0), 1),
    "kl_divergence of strangers": lambda t: t.distributions.kl_divergence(
        t.distributions.Normal(0.0, 1.0), t.distributions.Categorical(t.ones(2))
    ),
    "expand to another shape": lambda t: t.distributions.Normal(t.zeros(2), t.ones(2)).expand((3,)),
    "rsample of what has none": lambda t: t.distributions.Bernoulli(0.5).rsample(),
    "a sample of a negative shape": lambda t: t.distributions.Normal(0.0, 1.0).sample((-1,)),
    "a transformation's inverse that has none": lambda t: t.distributions.SoftmaxTransform().log_abs_det_jacobian(
        t.ones(2), t.ones(2)
    ),
}

SETTINGS: Mistakes = {
    "a default type of integers": lambda t: t.set_default_dtype(t.int64),
    "a default type that is a string": lambda t: t.set_default_dtype("nope"),
    "a default device that does not exist": lambda t: t.set_default_device("nope"),
    "a device as context that does not exist": lambda t: t.device("nope").__enter__(),
    "a number of threads below one": lambda t: t.set_num_threads(0),
    "a number of threads that is a string": lambda t: t.set_num_threads("a"),
    "deterministic algorithms of a string": lambda t: t.use_deterministic_algorithms("yes"),
    "grad mode without a value": lambda t: t.set_grad_enabled(),
    "a load of what is no file": lambda t: t.load(io.BytesIO(b"nothing of the sort")),
    "a load of nothing": lambda t: t.load(io.BytesIO()),
    "a load of a missing file": lambda t: t.load("/no/such/file.pt"),
    "a load of a number": lambda t: t.load(5),
    "a load of a string's bytes": lambda t: t.load(b"a"),
    "a load with an unknown option": lambda t: t.load(_file(t), wieghts_only=False),
    "a load to a device that does not exist": lambda t: t.load(_file(t), map_location="nope"),
    "a load of a half file": lambda t: t.load(io.BytesIO(_file(t).getvalue()[:100])),
    "a load to a number": lambda t: t.load(_file(t), map_location=5),
    "a load by memory of an open file": lambda t: t.load(_file(t), mmap=True),
    "a save of a function": lambda t: t.save(lambda: 1, io.BytesIO()),
    "a save without a file": lambda t: t.save(t.ones(2)),
    "a save into a folder that does not exist": lambda t: t.save(t.ones(2), "/no/such/folder/file.pt"),
    "a save into a number": lambda t: t.save(t.ones(2), 5),
    "a save of a stream": lambda t: t.save((x for x in [1]), io.BytesIO()),
    "DLPack of a list": lambda t: t.from_dlpack([1, 2]),
    "DLPack of what needs a gradient": lambda t: t.ones(2, requires_grad=True).__dlpack__(),
    "as_tensor of an object": lambda t: t.as_tensor(object()),
    "a comparison that fails": lambda t: t.testing.assert_close(t.ones(2), t.zeros(2)),
    "a comparison of types": lambda t: t.testing.assert_close(t.ones(2), t.ones(2, dtype=t.float16)),
    "a comparison of one tolerance": lambda t: t.testing.assert_close(t.ones(2), t.ones(2), rtol=0.1),
    "a comparison of shapes": lambda t: t.testing.assert_close(t.ones(2), t.ones(3)),
    "make_tensor of an unknown type": lambda t: t.testing.make_tensor(2, dtype="float", device="cpu"),
}


def _file(t: Any) -> io.BytesIO:
    file = io.BytesIO()
    t.save({"a": t.ones(2)}, file)
    file.seek(0)
    return file


TABLES = {
    "algebra": ALGEBRA,
    "layers": LAYERS,
    "losses": LOSSES,
    "modules": MODULES,
    "gradients": GRADIENTS,
    "training": TRAINING,
    "randomness": RANDOMNESS,
    "settings": SETTINGS,
}

#: mistakes that name the CPU, so that they are the same wherever tensors are made
SAFE_ALONE = ("GradScaler that is stepped before it scales", "make_tensor of an unknown type")
