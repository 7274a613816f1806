"""What networks are made of: softmax, normalisation, embedding, dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...dispatch.registry import operation
from ...dispatch.titles import retitled
from ...ir.dtypes import dtype, float32, float64, int64
from ...ir.layouts import Layout, wrap_dimension
from ...ir.scalar_math import round_to_float32
from ...record.grad_mode import no_grad, recording
from ...replay.recipes import of_layers, remembered, saves_arguments
from ...tensors.memory_formats import contiguous_format
from ...tensors.saved_tensors import SavedOperand
from ...tensors.tensor import Tensor
from .. import elementwise as e
from ..common import (
    as_dimensions,
    attach,
    image_order,
    in_order,
    needs_gradient,
    no_view,
    refuse_types,
    require_parameter_types,
    require_tensor,
    type_title,
)
from ..creation.ranges import arange
from ..elementwise.choosing import where
from ..in_place.writing import replaced, snapshot
from ..indexing.gathering import index_add, take_positions
from ..indexing.index_checks import check_selected
from ..outputs import into
from ..random.draws import bernoulli_mask
from ..reduction.moments import vector_norm
from ..reduction.reductions import mean, sum
from .row_kernels import softmax_values, standardize
from .sparse_gradients import with_sparse_gradient

if TYPE_CHECKING:
    from ...tensors.type_aliases import Dimensions, Number


def _wide(input: Tensor) -> Tensor:
    """Return the input in at least float32; complex numbers as they are."""
    return input if input.dtype in (float32, float64) or input.dtype.is_complex else input.to(float32)


def _of_nothing(input: Tensor, title: str) -> Tensor:
    """Return the result for a tensor without elements, whose gradient depends on it as it does where there are some."""
    saved, result = input._save(), input.detach().clone(memory_format=contiguous_format)
    return attach(result, title, (input,), lambda grad: grad * saved.unpack()) if needs_gradient(input) else result


def _softmax(input: Tensor, dim: int) -> Tensor:
    if not input.numel():
        return _of_nothing(input, "SoftmaxBackward0")
    result = softmax_values(_wide(input.detach()), wrap_dimension(dim, input.ndim)).to(input.dtype)
    if needs_gradient(input):
        kind = input.dtype
        saved = SavedOperand(input, input._gradient_edge(), result, "SoftmaxBackward0")
        # Hooks are to see all that is kept: with them the result is computed again.
        kept = result.detach() if kind.itemsize > 2 and not recording.saved_hooks else None

        def run_backward(grad: Tensor) -> Any:
            # Recompute where the pass itself is differentiated, so that the gradient of the result is recorded too.
            source = saved.unpack()
            if needs_gradient(source):
                output = _wide(softmax(source, dim))
            else:
                # A 16-bit result has lost what the gradient needs; its operand has not.
                output = (
                    softmax_values(_wide(source.detach()), wrap_dimension(dim, source.ndim)) if kept is None else kept
                )
            weighted = _wide(grad) * output
            return (weighted - output * sum(weighted, dim, True)).to(kind)

        attach(result, "SoftmaxBackward0", (input,), run_backward)
    return result


@operation("reduction", aliases=("special_softmax",))
@remembered
def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """``exp(input) / sum(exp(input))`` along a dimension."""
    return _of_floats("softmax", _softmax, input, dim, dtype, out)


@operation("reduction", aliases=("special_log_softmax",))
@remembered
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input - log(sum(exp(input)))`` along a dimension."""
    return _of_floats("log_softmax", _log_softmax, input, dim, dtype, out)


def _of_floats(
    name: str, function: Callable[[Tensor, int], Tensor], input: Tensor, dim: int, kind: dtype | None, out: Tensor | None
) -> Tensor:  # fmt: skip
    """Return a function of a tensor, converted if a type is given, along a dimension; a single number is a row of one."""
    source = input if kind is None else input.to(kind)
    as_dimensions(dim, source.ndim)
    if source.dtype.category < 2 and source.numel():
        raise NotImplementedError(f"\"{name}_lastdim_kernel_impl\" not implemented for '{type_title(source)}'")
    if source.ndim == 0:
        result = no_view(function(source.reshape(1), 0).reshape(()))
        title = "".join(map(str.capitalize, name.split("_")))
        return into(retitled(result, f"{title}Backward0"), out, True)
    return into(function(source, dim), out, True)


def _log_softmax(input: Tensor, dim: int) -> Tensor:
    source = _wide(input.detach())
    if not source.numel():
        return _of_nothing(input, "LogSoftmaxBackward0")
    result = softmax_values(source, wrap_dimension(dim, source.ndim), True).to(input.dtype)
    if needs_gradient(input):
        kind = input.dtype
        saved = SavedOperand(input, input._gradient_edge(), result, "LogSoftmaxBackward0")
        kept = result.detach() if kind.itemsize > 2 and not recording.saved_hooks else None

        def run_backward(grad: Tensor) -> Any:
            source = saved.unpack()
            if needs_gradient(source):
                output = _wide(_log_softmax(source, dim))
            else:
                output = (
                    softmax_values(_wide(source.detach()), wrap_dimension(dim, source.ndim), True)
                    if kept is None
                    else kept
                )
            wide = _wide(grad)
            return (wide - output.exp() * sum(wide, dim, True)).to(kind)

        attach(result, "LogSoftmaxBackward0", (input,), run_backward)
    return result


@operation("composite", namespace="functional", method=False)
def softmin(input: Tensor, dim: Dimensions = None, dtype: dtype | None = None) -> Tensor:
    """``softmax(-input)`` along a dimension."""
    return softmax(-input, dim, dtype)


@operation("composite", namespace="functional", method=False)
def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """The Gaussian error linear unit ``input * Phi(input)``; ``approximate='tanh'`` uses the tanh formula."""
    if approximate == "none":
        return into(e.gelu_erf(input), out, True, (input,))
    if approximate == "tanh":
        return into(e.gelu_tanh(input), out, True, (input,))
    raise RuntimeError("approximate argument must be either none or tanh.")


def _normalized_shape(
    input: Tensor, normalized_shape: Sequence[int], parameters: dict[str, Tensor | None], comma: str
) -> tuple[int, ...]:
    """Return the shape of what is normalized as a tuple; ``comma`` is what PyTorch's error has after the star.

    Raises:
        RuntimeError: it has no dimensions, is not that of the parameters, or the input does not end in it.
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, parameter in parameters.items():
        if parameter is not None and tuple(parameter._layout.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(parameter.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
    if tuple(input._layout.shape[max(input.ndim - len(shape), 0) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*{comma}{', '.join(map(str, shape))}], but got "
            f"input of size{list(input.shape)}"
        )
    return shape


@operation("composite", namespace="functional", method=False, title="NativeLayerNormBackward0")
@of_layers(2)
@saves_arguments
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """``(input - mean) / sqrt(var + eps) * weight + bias`` over the last dimensions.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``.
        NotImplementedError: it is not of floating-point numbers.
    """
    shape = _normalized_shape(input, normalized_shape, {"weight": weight, "bias": bias}, ", ")
    require_parameter_types(input, weight, bias)
    refuse_types("LayerNormKernelImpl", input, 0, 1, 3)
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    # 16-bit inputs are rounded once, at the end.
    result = standardized(_wide(input), dims, eps)
    if weight is not None:
        result = result * weight
    return (result if bias is None else result + bias).to(input.dtype)


def standardized(input: Tensor, dims: tuple[int, ...], eps: float, target: Layout | None = None) -> Tensor:
    """Return the input with mean 0 and variance 1 over dimensions: row-major, unless it is to have a dense ``target`` layout."""
    if not input.numel():
        return _of_nothing(input, "NativeLayerNormBackward0")
    normal, scale = standardize(_wide(input.detach()), dims, eps, needs_gradient(input), target)
    result = normal.to(input.dtype)
    if not needs_gradient(input):
        return result
    # The result may be written into, as PyTorch's: what is kept is not reached by that.
    saved = input._save()
    # Hooks are to see all that is kept: with them these are computed again.
    kept, scale = (None, None) if recording.saved_hooks else (snapshot(normal), scale)

    def run_backward(grad: Tensor) -> Any:
        input = saved.unpack()
        wide, factor, unit = _wide(grad), scale, kept
        if unit is None:
            unit, factor = standardize(_wide(input.detach()), dims, eps, True, target)
        if needs_gradient(input):
            again = _wide(input)
            middle = again - mean(again, dims, True)
            factor = (mean(middle * middle, dims, True) + eps).rsqrt()
            unit = middle * factor
        inner = wide - mean(wide, dims, True) - unit * mean(wide * unit, dims, True)
        return (inner * factor).to(input.dtype)

    return attach(result, "NativeLayerNormBackward0", (input,), run_backward)


@operation("composite", namespace="functional", method=False)
@of_layers(2)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``input / sqrt(mean(input**2) + eps) * weight`` over the last dimensions.

    Raises:
        RuntimeError: the input does not end in ``normalized_shape``, or the weight has another shape.
        NotImplementedError: the input is of whole numbers or truth values.
    """
    shape = _normalized_shape(input, normalized_shape, {"weight": weight}, "")
    refuse_types("rms_norm", input, 0, 1)
    dims = tuple(range(input.ndim - len(shape), input.ndim))
    machine = 2.220446049250313e-16 if input.dtype is float64 else 1.1920928955078125e-07
    wide = _wide(in_order(input, image_order(input)) if input._layout.numel else input)
    result = wide * (mean(wide * wide, dims, True) + (machine if eps is None else eps)).rsqrt()
    return (result if weight is None else result * weight).to(input.dtype)


@operation("indexed", namespace="functional", method=False)
@of_layers(1)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: Number | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of ``weight`` [entries, features] at integer positions; the row ``padding_idx`` gets no gradient.

    Raises:
        RuntimeError: ``weight`` is no matrix, ``input`` of no integers, or a sparse gradient is to be scaled by frequency.
    """
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype.category != 1:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{input.type()} instead (while checking arguments for embedding)"
        )
    if sparse and scale_grad_by_freq and needs_gradient(weight):
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    if max_norm is not None:
        _renormalize(weight, input, max_norm, norm_type)
    table = weight.detach() if sparse else weight
    padding = None if padding_idx is None else padding_idx % weight.shape[0]
    if padding is not None and not sparse:
        table = _without_gradient_row(weight, padding)
    report = check_selected("embedding", weight, 0, input)
    result = take_positions(table, 0, input, "EmbeddingBackward0", report=report)
    if sparse:
        return with_sparse_gradient(result, weight, input, padding)
    return _divided_by_frequency(result, input, weight.shape[0]) if scale_grad_by_freq else result


def _divided_by_frequency(rows: Tensor, index: Tensor, entries: int) -> Tensor:
    """Return the rows, with gradients divided by how often each row's index occurs."""
    if not needs_gradient(rows):
        return rows
    result = rows.detach().view(rows.shape)
    saved = index._save()

    def run_backward(grad: Tensor) -> Any:
        chosen = saved.unpack().to(int64).reshape(-1)
        counts = index_add(grad.new_zeros((entries,)), 0, chosen, grad.new_ones((chosen.shape[0],)))
        return grad / counts[chosen].reshape((*index.shape, 1))

    return attach(result, "EmbeddingBackward0", (rows,), run_backward)


def _without_gradient_row(weight: Tensor, row: int) -> Tensor:
    if not needs_gradient(weight):
        return weight
    result = weight.detach().view(weight.shape)

    def run_backward(grad: Tensor) -> Any:
        keep = (arange(grad.shape[0], device=grad.device) != row).unsqueeze(1)
        # Not a product: what arrives there may be NaN, from the means of bags that hold nothing else.
        return where(keep, grad, grad.new_zeros(()))

    return attach(result, "EmbeddingBackward0", (weight,), run_backward)


def _renormalize(weight: Tensor, rows: Tensor, limit: float, order: float) -> None:
    with no_grad():
        table = weight.detach()
        norms = vector_norm(table, order, 1, True)
        scale = where(norms > limit, limit / (norms + 1e-7), norms.new_ones(norms.shape))
        used = table.new_zeros((table.shape[0],)).index_fill(0, rows.reshape(-1).to(int64), 1).unsqueeze(1) != 0
        table.copy_(where(used, table * scale, table))


@operation("composite", namespace="functional", method=False)
def dropout(input: Tensor, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements zeroed with probability ``p``, the others scaled by ``1 / (1 - p)``, while training.

    Raises:
        ValueError: ``p`` outside of [0, 1].
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    require_tensor("dropout", "input", 1, input)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    refuse_types("bernoulli_scalar_cpu_", input, 3)
    if p == 1.0:
        result = input * input.new_zeros(())
    else:
        mask = dropout_mask(input, 1.0 - p)
        # Only what is no floating-point number needs div_ to refuse it: recording that takes longer. A factor is a multiplication
        # for each element where a divisor is a division, and the same: PyTorch's is a float32 number, too.
        result = input * (mask * _inverse(1.0 - p, mask.dtype) if mask.dtype.category >= 2 else mask.div_(1.0 - p))
    return replaced(input, result) if inplace else result


def _inverse(keep: float, kind: dtype) -> float:
    """Return the inverse of a number in the precision in which a type is computed."""
    exact = kind.to_real() is float64
    return 1.0 / (keep if exact else round_to_float32(keep))


def dropout_mask(input: Tensor, keep: float) -> Tensor:
    """Return ones with probability ``keep`` in the input's shape and type, drawn in the order of its memory."""
    strides = input._layout.strides
    order = sorted(range(input.ndim), key=lambda index: -strides[index])
    if input._layout.is_contiguous or 0 in strides or order == list(range(input.ndim)):
        return bernoulli_mask(input, keep)
    back = sorted(range(input.ndim), key=lambda index: order[index])
    return bernoulli_mask(input.detach().permute(order), keep).permute(back)


Tensor.dropout = dropout  # type: ignore[attr-defined]
