"""Recurrent networks: Elman's (1990), the LSTM (Hochreiter and Schmidhuber, 1997; projected: Sak et al., 2014), the GRU
(Cho et al., 2014). Their steps are in :mod:`._recurrence`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import linear
from webgpu_torch_core.dispatch.overrides import publish

from ._recurrence import Layer, Maybe, Steps, gru_step, lstm_step, recorded, untracked
from .dropout import dropout as _dropout


class _Weights:
    """The weights of one direction of one layer."""

    def __init__(self, parameters: Sequence[Tensor], has_biases: bool, projects: bool) -> None:
        self.input, self.hidden = parameters[:2]
        self.input_bias, self.hidden_bias = parameters[2:4] if has_biases else (None, None)
        self.projection = parameters[-1] if projects else None


def _weights(params: Sequence[Tensor], has_biases: bool, projects: bool, count: int) -> list[_Weights]:
    each = 2 + 2 * has_biases + projects
    if len(params) != each * count:
        raise RuntimeError(f"expected {each} parameters for each of {count} layers and directions, got {len(params)}")
    return [_Weights(params[each * i : each * (i + 1)], has_biases, projects) for i in range(count)]


def _run_direction(
    mode: str, steps: Steps, reverse: bool, data: Tensor, hidden: Tensor, cell: Maybe, weights: _Weights
) -> tuple[Tensor, Tensor, Maybe]:
    bias, step_bias = weights.input_bias, weights.hidden_bias
    if mode != "GRU" and bias is not None and step_bias is not None:
        bias, step_bias = bias + step_bias, None
    projected = linear(data, weights.input, bias)
    tensors = projected, hidden, cell, weights.hidden, step_bias, weights.projection
    if steps.sizes is None and not torch.is_grad_enabled():
        output, last, *cells = untracked(mode, steps.count, steps.length, reverse, *tensors)
    else:
        # Inside autocast regions steps convert what they multiply.
        apply = recorded if torch.is_autocast_enabled(data.device.type) else Layer.apply
        output, last, *cells = apply(mode, steps, reverse, *tensors)
    return output, last, cells[0] if cells else None


def _run(
    mode: str, data: Tensor, steps: Steps, hidden: Tensor, cells: Maybe, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, Tensor, Maybe]:  # fmt: skip
    """Run all layers over rows [rows, features]; return the last layer's rows and all last states."""
    directions = 2 if bidirectional else 1
    projects = cells is not None and hidden.shape[-1] != cells.shape[-1]
    weights = _weights(params, has_biases, projects, num_layers * directions)
    last: list[Tensor] = []
    last_cells: list[Tensor] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            cell = None if cells is None else cells[number]
            output, state, cell = _run_direction(
                mode, steps, direction == 1, data, hidden[number], cell, weights[number]
            )
            outputs.append(output)
            last.append(state)
            last_cells += [] if cell is None else [cell]
        data = torch.cat(outputs, -1) if bidirectional else outputs[0]
        if dropout and train and layer < num_layers - 1:
            data = _dropout(data, dropout)
    return data, torch.stack(last), torch.stack(last_cells) if last_cells else None


def _run_padded(
    mode: str, input: Tensor, hidden: Tensor, cells: Maybe, params: Sequence[Tensor], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Maybe]:  # fmt: skip
    """Run sequences of one length, [length, n, features] or [n, length, features]."""
    if batch_first:
        input = input.transpose(0, 1)
    length, count = input.shape[:2]
    if length == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    steps = Steps(count, length, None, input.device)
    output, last, last_cells = _run(
        mode, input.reshape(length * count, input.shape[-1]), steps, hidden, cells, params, has_biases, num_layers, dropout,
        train, bidirectional,
    )  # fmt: skip
    output = output.reshape(length, count, output.shape[-1])
    return output.transpose(0, 1) if batch_first else output, last, last_cells


def _run_packed(
    mode: str, data: Tensor, batch_sizes: Tensor, hidden: Tensor, cells: Maybe, params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[Tensor, Tensor, Maybe]:  # fmt: skip
    """Run sequences of any lengths, packed."""
    sizes = batch_sizes.tolist()
    # Sequences of one length need no masks.
    ragged = sizes if min(sizes) != max(sizes) else None
    steps = Steps(sizes[0], len(sizes), ragged, data.device)
    return _run(mode, data, steps, hidden, cells, params, has_biases, num_layers, dropout, train, bidirectional)


_REST = {
    "params": "tuple of Tensors", "has_biases": "bool", "num_layers": "int", "dropout": "float", "train": "bool",
    "bidirectional": "bool",
}  # fmt: skip


def _named(name: str, state: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, list[Any]]:
    """Return whether the arguments are those of a packed sequence, and the arguments in order."""
    packed_kinds = {"data": "Tensor", "batch_sizes": "Tensor", "hx": state, **_REST}
    padded_kinds = {"input": "Tensor", "hx": state, **_REST, "batch_first": "bool"}
    packed = (len(args) > 3 and not isinstance(args[3], bool)) or "data" in kwargs or "batch_sizes" in kwargs
    names = packed_kinds if packed else padded_kinds
    found = dict(zip(names, args, strict=False)) | kwargs
    if len(args) + len(kwargs) != len(names) or set(found) != set(names):
        given = [*(type(each).__name__ for each in args), *(f"{key}={type(kwargs[key]).__name__}" for key in kwargs)]
        forms = "".join(
            f" * ({', '.join(f'{kind} {key}' for key, kind in form.items())})\n"
            for form in (packed_kinds, padded_kinds)
        )
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({', '.join(given)}), but expected one of:\n{forms}"
        )
    return packed, [found[each] for each in names]


def _call(mode: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, Tensor, Maybe]:
    packed, values = _named(name, "tuple of Tensors" if mode == "LSTM" else "Tensor", args, kwargs)
    place = 2 if packed else 1
    state = values[place]
    if mode == "LSTM":
        if len(state) != 2:
            raise RuntimeError("lstm expects two hidden states")
        hidden, cells = state
    else:
        hidden, cells = state, None
    values[place : place + 1] = [hidden, cells]
    return (_run_packed if packed else _run_padded)(mode, *values)


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory of several layers: the last layer's hidden states, all last hidden states, all last cells.

    Arguments are (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first), or for packed
    sequences (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional).

        i, f, g, o = W_ih x + b_ih + W_hh h + b_hh        c = σ(f) c + σ(i) tanh(g)        h = W_hr (σ(o) tanh(c))

    input [length, n, features] ([n, length, features] if ``batch_first``); hx two tensors [layers * directions, n, hidden];
    params weight_ih [4 * hidden, features], weight_hh [4 * hidden, hidden], with ``has_biases`` two biases [4 * hidden],
    and weight_hr [projection, hidden] where the first state has other sizes than the second: for every layer and direction.

    Raises:
        RuntimeError: no steps, not two states, another number of parameters.
    """
    output, hidden, cells = _call("LSTM", "lstm", args, kwargs)
    if cells is None:
        raise RuntimeError("lstm expects two hidden states")
    return output, hidden, cells


def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """Gated recurrent units of several layers: the last layer's hidden states and all last hidden states.

    Arguments as those of :func:`lstm`, with hx one tensor and three gates r, z, n instead of four.

        r, z = σ(W x + b + W_hh h + b_hh)        n = tanh(W x + b + r (W_hh h + b_hh))        h = (1 - z) n + z h
    """
    return _call("GRU", "gru", args, kwargs)[:2]


def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, over all steps and layers; arguments as those of :func:`gru`."""
    return _call("RNN_TANH", "rnn_tanh", args, kwargs)[:2]


def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``h = relu(W_ih x + b_ih + W_hh h + b_hh)``, over all steps and layers; arguments as those of :func:`gru`."""
    return _call("RNN_RELU", "rnn_relu", args, kwargs)[:2]


# Cells


def _check_cell(input: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor, gates: int, name: str) -> None:
    """Check sizes as PyTorch's kernels do."""
    size = w_hh.shape[1]
    if input.shape[-1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}")
    if hidden.shape[-1] != size:
        raise RuntimeError(f"{name} has inconsistent hidden_size: got {hidden.shape[-1]}, expected {size}")
    if input.shape[0] != hidden.shape[0]:
        raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match {name} batch size {hidden.shape[0]}")
    for title, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != gates * size:
            raise RuntimeError(
                f"{title} first dim must be {gates} * hidden_size = {gates * size}, but got {weight.shape[0]}"
            )


def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One step of :func:`lstm`: input [n, features], hx two tensors [n, hidden]; the next hidden state and cell."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    for number, state in enumerate(hx):
        _check_cell(input, state, w_ih, w_hh, 4, f"hidden{number}")
    return lstm_step(linear(input, w_ih, b_ih) + linear(hx[0], w_hh, b_hh), hx[1])


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of :func:`gru`: input [n, features], hx [n, hidden]; the next hidden state."""
    _check_cell(input, hx, w_ih, w_hh, 3, "hidden0")
    return gru_step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of :func:`rnn_tanh`: input [n, features], hx [n, hidden]; the next hidden state."""
    _check_cell(input, hx, w_ih, w_hh, 1, "hidden0")
    return (linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh)).tanh()


def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of :func:`rnn_relu`: input [n, features], hx [n, hidden]; the next hidden state."""
    _check_cell(input, hx, w_ih, w_hh, 1, "hidden0")
    return (linear(input, w_ih, b_ih) + linear(hx, w_hh, b_hh)).relu()


publish(globals(), "torch")
