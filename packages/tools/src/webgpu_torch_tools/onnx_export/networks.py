"""Products, convolutions, pooling, normalisation, attention, recurrent layers, and resizing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import webgpu_torch as torch

from .writing import UnsupportedOperatorError, Value, Writer, converts


@converts("linear")
def _linear(w: Writer, a: SimpleNamespace) -> Value:
    weight = w.name(a.weight)
    if w.rank(a.weight) == 2 and w.rank(a.input) == 2 and a.bias is not None:
        return w.op("Gemm", w.name(a.input), weight, w.name(a.bias), transB=1)
    if w.rank(a.weight) == 2:
        weight = w.op("Transpose", weight, perm=[1, 0])
    result = w.op("MatMul", w.name(a.input), weight)
    return result if a.bias is None else w.op("Add", result, w.name(a.bias))


@converts("matmul", "mm", "bmm", "dot", "mv")
def _matmul(w: Writer, a: SimpleNamespace) -> Value:
    first, second = list(vars(a).values())[:2]
    return w.op("MatMul", w.name(first), w.name(second))


def _scaled(w: Writer, name: str, factor: float) -> str:
    return name if factor == 1 else w.op("Mul", name, w.number(factor, w.result_type()))


@converts("addmm", "baddbmm", "addbmm", "addmv")
def _addmm(w: Writer, a: SimpleNamespace) -> Value:
    added, first, second = list(vars(a).values())[:3]
    product = w.op("MatMul", w.name(first), w.name(second))
    if "addbmm" in w.describe() and "baddbmm" not in w.describe():
        product = w.op("ReduceSum", product, w.ints([0]), keepdims=0)
    return w.op("Add", _scaled(w, w.name(added), a.beta), _scaled(w, product, a.alpha))


@converts("einsum")
def _einsum(w: Writer, a: SimpleNamespace) -> Value:
    return w.op("Einsum", *(w.name(each, w.result_type()) for each in a.tensors), equation=a.equation)


@converts("bilinear")
def _bilinear(w: Writer, a: SimpleNamespace) -> Value:
    names = (w.name(a.input1), w.name(a.weight), w.name(a.input2))
    result = w.op("Einsum", *names, equation="...i,oij,...j->...o")
    return result if a.bias is None else w.op("Add", result, w.name(a.bias))


# Windows


def _spatial(w: Writer, a: SimpleNamespace) -> int:
    return int(w.describe().partition("d.")[0][-1])


def _each(value: Value, count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


def _batched(w: Writer, value: Value, count: int) -> tuple[str, bool]:
    """Return an input with its dimension of a batch, and whether that was added."""
    alone = w.rank(value) == count + 1
    return (w.op("Unsqueeze", w.name(value), w.ints([0])) if alone else w.name(value)), alone


def _unbatched(w: Writer, name: str, alone: bool) -> str:
    return w.op("Squeeze", name, w.ints([0])) if alone else name


@converts("conv1d", "conv2d", "conv3d")
def _conv(w: Writer, a: SimpleNamespace) -> Value:
    count = _spatial(w, a)
    name, alone = _batched(w, a.input, count)
    options: dict[str, Value] = {
        "group": a.groups,
        "strides": _each(a.stride, count),
        "dilations": _each(a.dilation, count),
    }
    if isinstance(a.padding, str):
        # One more at the end, where they are odd, in both.
        options["auto_pad"] = "SAME_UPPER" if a.padding == "same" else "VALID"
    else:
        options["pads"] = _each(a.padding, count) * 2
    inputs = [name, w.name(a.weight), *([] if a.bias is None else [w.name(a.bias)])]
    return _unbatched(w, w.op("Conv", *inputs, **options), alone)


@converts("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(w: Writer, a: SimpleNamespace) -> Value:
    count = _spatial(w, a)
    name, alone = _batched(w, a.input, count)
    inputs = [name, w.name(a.weight), *([] if a.bias is None else [w.name(a.bias)])]
    result = w.op(
        "ConvTranspose", *inputs, group=a.groups, strides=_each(a.stride, count), dilations=_each(a.dilation, count),
        pads=_each(a.padding, count) * 2, output_padding=_each(a.output_padding, count),
    )  # fmt: skip
    return _unbatched(w, result, alone)


@converts("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(w: Writer, a: SimpleNamespace) -> Value:
    count = _spatial(w, a)
    name, alone = _batched(w, a.self, count)
    result = w.op(
        "MaxPool", name, kernel_shape=_each(a.kernel_size, count), strides=_each(a.stride or a.kernel_size, count),
        pads=_each(a.padding, count) * 2, dilations=_each(a.dilation, count), ceil_mode=int(a.ceil_mode),
    )  # fmt: skip
    return _unbatched(w, result, alone)


@converts("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(w: Writer, a: SimpleNamespace) -> Value:
    count = _spatial(w, a)
    name, alone = _batched(w, a.self, count)
    kernel = _each(a.kernel_size, count)
    divisor = getattr(a, "divisor_override", None)
    if a.ceil_mode and (any(_each(a.padding, count)) or divisor):
        raise UnsupportedOperatorError("averages of windows that end outside")
    result = w.op(
        "AveragePool", name, kernel_shape=kernel, strides=_each(a.stride or a.kernel_size, count),
        pads=_each(a.padding, count) * 2, ceil_mode=int(a.ceil_mode), count_include_pad=int(a.count_include_pad or bool(divisor)),
    )  # fmt: skip
    result = _scaled(w, result, math.prod(kernel) / divisor) if divisor else result
    return _unbatched(w, result, alone)


@converts("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def _adaptive_avg_pool(w: Writer, a: SimpleNamespace) -> Value:
    count = _spatial(w, a)
    name, alone = _batched(w, a.self, count)
    sizes = _each(a.output_size, count)
    if sizes == [1] * count:
        return _unbatched(w, w.op("GlobalAveragePool", name), alone)
    found = [w.fixed(a.self, place - count) for place in range(count)]
    sizes = [have if want is None else want for have, want in zip(found, sizes, strict=True)]
    if any(have % want for have, want in zip(found, sizes, strict=True)):
        return _unbatched(w, _averaged(w, name, found, sizes), alone)
    kernel = [have // want for have, want in zip(found, sizes, strict=True)]
    return _unbatched(w, w.op("AveragePool", name, kernel_shape=kernel, strides=kernel), alone)


def _averaged(w: Writer, name: str, found: list[int], sizes: list[int]) -> str:
    """Return averages of windows of different sizes: each dimension's product with a matrix of weights."""
    rank = len(found) + 2
    for place, (have, want) in enumerate(zip(found, sizes, strict=True)):
        weights = torch.zeros(have, want, dtype=w.result_type())
        for each in range(want):
            begin, end = each * have // want, -(-(each + 1) * have // want)
            weights[begin:end, each] = 1 / (end - begin)
        order = list(range(rank))
        order[place + 2], order[-1] = order[-1], order[place + 2]
        product = w.op("MatMul", w.op("Transpose", name, perm=order), w.array(weights))
        name = w.op("Transpose", product, perm=order)
    return name


# Normalisation


def _filled_weights(w: Writer, a: SimpleNamespace, channels: int) -> tuple[str, str]:
    dtype = w.result_type()
    ones, zeros = (torch.full((channels,), each, dtype=dtype) for each in (1, 0))
    weight = w.array(ones) if a.weight is None else w.name(a.weight, dtype)
    return weight, w.array(zeros) if a.bias is None else w.name(a.bias, dtype)


@converts("batch_norm")
def _batch_norm(w: Writer, a: SimpleNamespace) -> Value:
    if a.training or a.running_mean is None:
        raise UnsupportedOperatorError("batch_norm in training: call model.eval() first")
    weight, bias = _filled_weights(w, a, w.fixed(a.running_mean, 0))
    names = (w.name(a.input), weight, bias, w.name(a.running_mean), w.name(a.running_var))
    return w.op("BatchNormalization", *names, epsilon=a.eps)


@converts("instance_norm")
def _instance_norm(w: Writer, a: SimpleNamespace) -> Value:
    if not a.use_input_stats:
        weight, bias = _filled_weights(w, a, w.fixed(a.input, 1))
        names = (w.name(a.input), weight, bias, w.name(a.running_mean), w.name(a.running_var))
        return w.op("BatchNormalization", *names, epsilon=a.eps)
    return w.op("InstanceNormalization", w.name(a.input), *_filled_weights(w, a, w.fixed(a.input, 1)), epsilon=a.eps)


@converts("layer_norm")
def _layer_norm(w: Writer, a: SimpleNamespace) -> Value:
    shape, dtype = list(a.normalized_shape), w.result_type()
    weight = w.op("Expand", w.number(1, dtype), w.ints(shape)) if a.weight is None else w.name(a.weight)
    extra = [] if a.bias is None else [w.name(a.bias)]
    return w.op("LayerNormalization", w.name(a.input), weight, *extra, axis=-len(shape), epsilon=a.eps)


@converts("rms_norm")
def _rms_norm(w: Writer, a: SimpleNamespace) -> Value:
    dtype, x = w.result_type(), w.name(a.input)
    eps = torch.finfo(dtype).eps if a.eps is None else a.eps
    mean = w.op("ReduceMean", w.op("Mul", x, x), w.ints(list(range(-len(a.normalized_shape), 0))))
    result = w.op("Div", x, w.op("Sqrt", w.op("Add", mean, w.number(eps, dtype))))
    return result if a.weight is None else w.op("Mul", result, w.name(a.weight))


@converts("group_norm")
def _group_norm(w: Writer, a: SimpleNamespace) -> Value:
    ones, zeros = (torch.full((a.num_groups,), each, dtype=w.result_type()) for each in (1, 0))
    grouped = w.reshaped(w.name(a.input), [0, a.num_groups, -1])
    normal = w.op("InstanceNormalization", grouped, w.array(ones), w.array(zeros), epsilon=a.eps)
    result = w.op("Reshape", normal, w.shape_of(a.input))
    per_channel = [-1, *(1,) * (w.rank(a.input) - 2)]
    if a.weight is not None:
        result = w.op("Mul", result, w.reshaped(w.name(a.weight), per_channel))
    return result if a.bias is None else w.op("Add", result, w.reshaped(w.name(a.bias), per_channel))


@converts("local_response_norm")
def _local_response_norm(w: Writer, a: SimpleNamespace) -> Value:
    if w.rank(a.input) != 4 or a.size % 2 == 0:
        raise UnsupportedOperatorError(
            "local_response_norm of other than [n, c, h, w], or of an even number of channels"
        )
    return w.op("LRN", w.name(a.input), alpha=float(a.alpha), beta=float(a.beta), bias=float(a.k), size=a.size)


@converts("normalize")
def _normalize(w: Writer, a: SimpleNamespace) -> Value:
    if a.p not in (1, 2) or not isinstance(a.dim, int):
        raise UnsupportedOperatorError(f"normalize by the norm of order {a.p}")
    norm = w.op(f"ReduceL{int(a.p)}", w.name(a.input), w.ints([a.dim]))
    return w.op("Div", w.name(a.input), w.op("Max", norm, w.number(a.eps, w.result_type())))


# Attention


@converts("scaled_dot_product_attention")
def _attention(w: Writer, a: SimpleNamespace) -> Value:
    if a.dropout_p:
        raise UnsupportedOperatorError("attention with dropout: call model.eval() first")
    dtype, rank = w.result_type(), w.rank(a.query)
    scale = 1 / math.sqrt(w.fixed(a.query, -1)) if a.scale is None else a.scale
    key, value = w.name(a.key), w.name(a.value)
    if a.enable_gqa and w.fixed(a.query, -3) != w.fixed(a.key, -3):
        key, value = (_repeated_heads(w, each, a) for each in (a.key, a.value))
    order = [*range(rank - 2), rank - 1, rank - 2]
    scores = w.op("MatMul", _scaled(w, w.name(a.query), scale), w.op("Transpose", key, perm=order))
    if a.is_causal:
        below = w.op("Trilu", w.op("Expand", w.number(1, torch.int32), w.op("Shape", scores)), upper=0)
        scores = w.op("Where", w.cast(below, torch.bool), scores, w.number(-math.inf, dtype))
    elif a.attn_mask is not None and w.dtype(a.attn_mask) is torch.bool:
        scores = w.op("Where", w.name(a.attn_mask), scores, w.number(-math.inf, dtype))
    elif a.attn_mask is not None:
        scores = w.op("Add", scores, w.name(a.attn_mask, dtype))
    return w.op("MatMul", w.op("Softmax", scores, axis=-1), value)


def _repeated_heads(w: Writer, value: Value, a: SimpleNamespace) -> str:
    rank = w.rank(value)
    times = w.fixed(a.query, -3) // w.fixed(value, -3)
    spread = w.op("Unsqueeze", w.name(value), w.ints([rank - 2]))
    tiled = w.op("Tile", spread, w.ints([1] * (rank - 2) + [times] + [1, 1]))
    rest = w.op("Shape", w.name(value), start=rank - 2)
    return w.op("Reshape", tiled, w.op("Concat", w.ints([0] * (rank - 3) + [-1]), rest, axis=0))


# Recurrent layers

#: where ONNX has PyTorch's gates: input, forget, cell, output against input, output, forget, cell; reset, update, new
_GATES = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}


def _gates(w: Writer, name: str, kind: str) -> str:
    parts = (
        w.op("Split", name, outputs=len(_GATES[kind]), axis=0, num_outputs=len(_GATES[kind]))
        if kind != "RNN"
        else [name]
    )
    return w.op("Concat", *(parts[each] for each in _GATES[kind]), axis=0)


def _layer(w: Writer, a: SimpleNamespace, kind: str, name: str, states: list[str], layer: int) -> list[str]:
    """Write one layer and return its outputs: all steps, [l, n, directions * h], and the last states."""
    directions = 1 + a.bidirectional
    count = 4 if a.has_biases else 2
    weights: list[list[str]] = [[], [], []]
    for direction in range(directions):
        begin = (layer * directions + direction) * count
        given = [_gates(w, w.name(each), kind) for each in a.params[begin : begin + count]]
        joined = [given[0], given[1], *([w.op("Concat", given[2], given[3], axis=0)] if a.has_biases else [])]
        for place, each in enumerate(joined):
            weights[place].append(w.op("Unsqueeze", each, w.ints([0])))
    stacked = [w.op("Concat", *each, axis=0) if each else "" for each in weights]
    # Weights of the last layer, [directions * 4 h, h], say how wide the states are.
    hidden = w.fixed(a.params[1], 1)
    extra: dict[str, Value] = {"linear_before_reset": 1} if kind == "GRU" else {}
    if kind == "RNN":
        extra["activations"] = ["Tanh" if "tanh" in w.describe() else "Relu"] * directions
    found = w.op(
        kind, name, *stacked, "", *states, outputs=1 + len(states), hidden_size=hidden,
        direction="bidirectional" if a.bidirectional else "forward", **extra,
    )  # fmt: skip
    steps = w.reshaped(w.op("Transpose", found[0], perm=[0, 2, 1, 3]), [0, 0, -1])
    return [steps, *found[1:]]


@converts("lstm", "gru", "rnn_tanh", "rnn_relu")
def _recurrent(w: Writer, a: SimpleNamespace) -> Value:
    kind = next(each for each in _GATES if each.lower() in w.describe())
    if not hasattr(a, "input") or w.rank(a.input) != 3 or (a.train and a.dropout):
        raise UnsupportedOperatorError(f"{w.describe()} of packed or single sequences, or with dropout in training")
    name = w.op("Transpose", w.name(a.input), perm=[1, 0, 2]) if a.batch_first else w.name(a.input)
    if len(a.params) != a.num_layers * (1 + a.bidirectional) * (4 if a.has_biases else 2):
        raise UnsupportedOperatorError(f"{w.describe()} with projections")
    states = [w.name(each) for each in (a.hx if isinstance(a.hx, list | tuple) else [a.hx])]
    directions, last = 1 + a.bidirectional, [[] for _ in states]
    for layer in range(a.num_layers):
        begin = w.ints([layer * directions]), w.ints([(layer + 1) * directions]), w.ints([0])
        name, *ends = _layer(w, a, kind, name, [w.op("Slice", each, *begin) for each in states], layer)
        for kept, each in zip(last, ends, strict=True):
            kept.append(each)
    steps = w.op("Transpose", name, perm=[1, 0, 2]) if a.batch_first else name
    return [steps, *(w.op("Concat", *each, axis=0) for each in last)]


@converts("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def _cell(w: Writer, a: SimpleNamespace) -> Value:
    states = [w.name(each) for each in (a.hx if isinstance(a.hx, list | tuple) else [a.hx])]
    pairs = ((w.name(a.input), a.w_ih, a.b_ih), (states[0], a.w_hh, a.b_hh))
    new, old = (_product(w, each, weight, bias) for each, weight, bias in pairs)
    if "rnn_" in w.describe():
        return w.op("Tanh" if "tanh" in w.describe() else "Relu", w.op("Add", new, old))
    if "lstm" in w.describe():
        enter, forget, cell, leave = w.op("Split", w.op("Add", new, old), outputs=4, axis=-1, num_outputs=4)
        kept = w.op("Mul", w.op("Sigmoid", forget), states[1])
        inside = w.op("Add", kept, w.op("Mul", w.op("Sigmoid", enter), w.op("Tanh", cell)))
        return [w.op("Mul", w.op("Sigmoid", leave), w.op("Tanh", inside)), inside]
    parts = [w.op("Split", each, outputs=3, axis=-1, num_outputs=3) for each in (new, old)]
    reset, update = (w.op("Sigmoid", w.op("Add", parts[0][each], parts[1][each])) for each in (0, 1))
    candidate = w.op("Tanh", w.op("Add", parts[0][2], w.op("Mul", reset, parts[1][2])))
    return w.op("Add", candidate, w.op("Mul", update, w.op("Sub", states[0], candidate)))


def _product(w: Writer, name: str, weight: Value, bias: Value) -> str:
    result = w.op("MatMul", name, w.op("Transpose", w.name(weight), perm=[1, 0]))
    return result if bias is None else w.op("Add", result, w.name(bias))


# Images


@converts("pixel_shuffle", "pixel_unshuffle")
def _pixel_shuffle(w: Writer, a: SimpleNamespace) -> Value:
    if w.rank(a.self) != 4:
        raise UnsupportedOperatorError(f"{w.describe()} of other than [n, c, h, w]")
    if "unshuffle" not in w.describe():
        return w.op("DepthToSpace", w.name(a.self), blocksize=a.upscale_factor, mode="CRD")
    r, (channels, height, width) = a.downscale_factor, (w.fixed(a.self, each) for each in (1, 2, 3))
    apart = w.reshaped(w.name(a.self), [0, channels, height // r, r, width // r, r])
    order = w.op("Transpose", apart, perm=[0, 1, 3, 5, 2, 4])
    return w.reshaped(order, [0, channels * r * r, height // r, width // r])


@converts("interpolate")
def _interpolate(w: Writer, a: SimpleNamespace) -> Value:
    assert w.node is not None
    kinds = {"nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear",
             "bicubic": "cubic"}  # fmt: skip
    if a.mode not in kinds:
        raise UnsupportedOperatorError(f"interpolate by {a.mode}")
    options: dict[str, Value] = {"mode": kinds[a.mode], "antialias": int(a.antialias) or None}
    if a.mode == "nearest":
        options |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif a.mode == "nearest-exact":
        options |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"}
    else:
        options["coordinate_transformation_mode"] = "align_corners" if a.align_corners else "half_pixel"
    if a.mode == "bicubic":
        options["cubic_coeff_a"] = -0.75
    count = w.rank(a.input) - 2
    if a.scale_factor is not None and not a.recompute_scale_factor:
        factors = [a.scale_factor] * count if isinstance(a.scale_factor, int | float) else list(a.scale_factor)
        return w.op(
            "Resize", w.name(a.input), "", w.array(torch.tensor([1, 1, *factors], dtype=torch.float32)), **options
        )
    sizes = [int(each) for each in w.node.meta["val"].shape[2:]]
    if None in w.shape(a.input)[2:] and a.size is None:
        raise UnsupportedOperatorError("interpolate to sizes that change")
    before = w.op("Shape", w.name(a.input), end=2)
    return w.op("Resize", w.name(a.input), "", "", w.op("Concat", before, w.ints(sizes), axis=0), **options)


@converts("grid_sampler")
def _grid_sampler(w: Writer, a: SimpleNamespace) -> Value:
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return w.op(
        "GridSample", w.name(a.input), w.name(a.grid), mode=modes[a.interpolation_mode],
        padding_mode=paddings[a.padding_mode], align_corners=int(a.align_corners),
    )  # fmt: skip


@converts("mse_loss", "l1_loss")
def _loss(w: Writer, a: SimpleNamespace) -> Value:
    apart = w.op("Sub", *w.common(a.self, a.target))
    each = w.op("Abs", apart) if "l1_loss" in w.describe() else w.op("Mul", apart, apart)
    return each if a.reduction == 0 else w.op("ReduceMean" if a.reduction == 1 else "ReduceSum", each, keepdims=0)
