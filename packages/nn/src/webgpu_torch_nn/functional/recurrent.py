"""Recurrent networks: Elman's (1990), the LSTM (Hochreiter and Schmidhuber, 1997; projected: Sak et al., 2014), the GRU
(Cho et al., 2014).

The products of all inputs with their weights are one matrix product, as are, in backward, those that give the gradients
of the weights (Appleyard et al., 2016). What is left per step is one product with the hidden state and one pass over the
gates; rows are found by numbers that change from step to step, so that all steps share their kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import linear
from webgpu_torch_core.dispatch.overrides import publish
from webgpu_torch_core.operations.indexing.gathering import take_positions
from webgpu_torch_core.replay.recipes import remembered

from .dropout import dropout as _dropout

Maybe = Tensor | None


@remembered
def _lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden state and the cell after a step, given the sums of both products [n, 4 * hidden]."""
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


@remembered
def _gru_step(given: Tensor, gates: Tensor, hidden: Tensor) -> Tensor:
    """Return the hidden state after a step, given the products with the input and with the state: [n, 3 * hidden]."""
    reset, update, candidate = given.chunk(3, -1)
    from_reset, from_update, from_candidate = gates.chunk(3, -1)
    candidate = (candidate + (reset + from_reset).sigmoid() * from_candidate).tanh()
    return candidate + (update + from_update).sigmoid() * (hidden - candidate)


@remembered
def _lstm_step_backward(
    gates: Tensor, before: Tensor, after: Tensor, grad: Tensor, grad_cell: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the gates and of the cell before the step."""
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    entering, forgetting, candidate, leaving = (
        entering.sigmoid(), forgetting.sigmoid(), candidate.tanh(), leaving.sigmoid(),
    )  # fmt: skip
    bounded = after.tanh()
    slope = grad * leaving * (1 - bounded * bounded)
    slope = slope if grad_cell is None else slope + grad_cell
    parts = (
        slope * candidate * entering * (1 - entering),
        slope * before * forgetting * (1 - forgetting),
        slope * entering * (1 - candidate * candidate),
        grad * bounded * leaving * (1 - leaving),
    )
    return torch.cat(parts, -1), slope * forgetting


@remembered
def _gru_step_backward(given: Tensor, gates: Tensor, hidden: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of both products, and the hidden state's other than through its product."""
    reset, update, candidate = given.chunk(3, -1)
    from_reset, from_update, from_candidate = gates.chunk(3, -1)
    reset, update = (reset + from_reset).sigmoid(), (update + from_update).sigmoid()
    candidate = (candidate + reset * from_candidate).tanh()
    slope = grad * (1 - update) * (1 - candidate * candidate)
    of_update = grad * (hidden - candidate) * update * (1 - update)
    of_reset = slope * from_candidate * reset * (1 - reset)
    return (
        torch.cat((of_reset, of_update, slope), -1),
        torch.cat((of_reset, of_update, slope * reset), -1),
        grad * update,
    )


# All steps


@remembered
def _rows(data: Tensor, index: Tensor) -> Tensor:
    """Return rows by numbers that are right by construction: nothing looks at them."""
    return take_positions(data, 0, index, "IndexSelectBackward0")


class _Steps:
    """Which rows of a sequence's data [rows, features] every step takes, and which of the batch still run.

    ``sizes`` are the batch sizes of a packed sequence, longest sequences first; None where every step has ``count`` rows.
    A step computes all rows of the batch, and what has ended keeps its state.
    """

    def __init__(self, count: int, length: int, sizes: Sequence[int] | None, device: Any) -> None:
        self.count, self.length, self.sizes = count, length, sizes
        self.rows = torch.arange(count, dtype=torch.int32, device=device)
        sizes_of_steps = [count] * length if sizes is None else sizes
        self.total, self.offsets = sum(sizes_of_steps), list(accumulate(sizes_of_steps, initial=0))
        if sizes is None:
            return
        places = [count * step + row for step, size in enumerate(sizes) for row in range(size)]
        self.places = torch.tensor(places, dtype=torch.int32, device=device)

    def read(self, data: Tensor, step: int) -> Tensor:
        """Return the rows of a step; for sequences that have ended, any rows."""
        index = self.rows + self.offsets[step]
        return _rows(data, index if self.sizes is None else index.clamp(max=self.total - 1))

    def running(self, step: int) -> Tensor | None:
        """Return which rows have not ended, None if all."""
        return None if self.sizes is None else (self.rows < self.sizes[step]).unsqueeze(1)

    def joined(self, each: list[Tensor]) -> Tensor:
        """Return what steps gave, each of them all rows, as data [rows, features]."""
        rows = torch.cat(each)
        return rows if self.sizes is None else rows.index_select(0, self.places)

    def order(self, reverse: bool) -> range:
        """Return the steps in the order of the recurrence."""
        return range(self.length - 1, -1, -1) if reverse else range(self.length)


def _kept(running: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    return new if running is None else torch.where(running, new, old)


def _total(left: Maybe, right: Maybe) -> Maybe:
    return right if left is None else left if right is None else left + right


class _Trace:
    """What the steps of one direction computed, in the order of the recurrence."""

    def __init__(self) -> None:
        self.hidden: list[Tensor] = []  # before each step
        self.cell: list[Tensor] = []
        self.gates: list[Tensor] = []
        self.after: list[Tensor] = []  # the cell, or for Elman networks the hidden state, that the gates gave
        self.inner: list[Tensor] = []  # the hidden state before its projection
        self.outputs: list[Tensor] = []

    @classmethod
    def of(cls, mode: str, hidden: Tensor, cell: Maybe, length: int, made: Sequence[Tensor]) -> _Trace:
        """Return the trace of steps that kept all rows: they made outputs, then gates, cells and inner states where there are any."""
        trace, lists = cls(), [list(made[at : at + length]) for at in range(0, len(made), length)]
        trace.outputs = lists.pop(0)
        trace.gates = lists.pop(0) if mode in ("GRU", "LSTM") else []
        trace.after = lists.pop(0) if mode == "LSTM" else trace.outputs
        trace.inner = lists.pop(0) if lists else []
        trace.hidden = [hidden, *trace.outputs[:-1]]
        trace.cell = [] if cell is None else [cell, *trace.after[:-1]]
        return trace


def _scan(
    mode: str, steps: _Steps, reverse: bool, projected: Tensor, hidden: Tensor, cell: Maybe, weight: Tensor, bias: Maybe,
    projection: Maybe,
) -> tuple[Tensor, Maybe, _Trace]:  # fmt: skip
    """Run the recurrence; return the last hidden state, the last cell and everything between."""
    trace = _Trace()
    for step in steps.order(reverse):
        given, running = steps.read(projected, step), steps.running(step)
        trace.hidden.append(hidden)
        product = linear(hidden, weight, bias)
        if mode == "GRU":
            trace.gates.append(product)
            new = _gru_step(given, product, hidden)
        else:
            gates = given + product
            if cell is None:
                new = after = gates.tanh() if mode == "RNN_TANH" else gates.relu()
            else:
                trace.gates.append(gates)
                trace.cell.append(cell)
                new, after = _lstm_step(gates, cell)
                cell = _kept(running, after, cell)
            trace.after.append(after)
        if projection is not None:
            trace.inner.append(new)
            new = linear(new, projection)
        hidden = _kept(running, new, hidden)
        trace.outputs.append(hidden)
    return hidden, cell, trace


def _recorded(mode: str, steps: _Steps, reverse: bool, *tensors: Maybe) -> tuple[Tensor, ...]:
    """Return what :class:`_Layer` does, its steps recorded one by one."""
    last, last_cell, trace = _scan(mode, steps, reverse, *tensors)  # type: ignore[arg-type]
    results = (steps.joined(trace.outputs[::-1] if reverse else trace.outputs), last)
    return results if last_cell is None else (*results, last_cell)


@remembered
def _untracked(mode: str, count: int, length: int, reverse: bool, data: Tensor, *rest: Maybe) -> tuple[Tensor, ...]:
    """Return the same of sequences of one length, where no gradients are recorded."""
    return _recorded(mode, _Steps(count, length, None, data.device), reverse, data, *rest)


@remembered
def _scanned(mode: str, count: int, length: int, reverse: bool, *tensors: Maybe) -> tuple[Tensor, ...]:
    """Return the output of sequences of one length, and what :meth:`_Trace.of` takes: all steps are recorded as one call."""
    steps = _Steps(count, length, None, tensors[0].device)  # type: ignore[union-attr]
    *_, trace = _scan(mode, steps, reverse, *tensors)  # type: ignore[arg-type]
    after = trace.after if mode == "LSTM" else []
    outputs = trace.outputs[::-1] if reverse else trace.outputs
    return (steps.joined(outputs), *trace.outputs, *trace.gates, *after, *trace.inner)


class _Layer(torch.autograd.Function):
    """One direction of one layer, with the gradients of weights summed over all steps at once.

    Arguments: mode, steps, reverse, then the tensors of :func:`_scan`. Returns the output [rows, features], the last
    hidden state and, of an LSTM, the last cell.
    """

    transformed = True

    @staticmethod
    def forward(ctx: Any, mode: str, steps: _Steps, reverse: bool, *tensors: Any) -> tuple[Tensor, ...]:
        _, hidden, cell, *_ = tensors
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.mode, ctx.steps, ctx.reverse, ctx.made = mode, steps, reverse, None
        if steps.sizes is None:
            output, *ctx.made = _scanned(mode, steps.count, steps.length, reverse, *tensors)
            ctx.trace = _Trace.of(mode, hidden, cell, steps.length, ctx.made)
            last, last_cell = ctx.trace.outputs[-1], ctx.trace.after[-1] if mode == "LSTM" else None
        else:
            last, last_cell, ctx.trace = _scan(mode, steps, reverse, *tensors)
            output = steps.joined(ctx.trace.outputs[::-1] if reverse else ctx.trace.outputs)
        # Copies: the states themselves stay as backward needs them.
        results = (output, last.clone())
        return results if last_cell is None else (*results, last_cell.clone())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, None, *_differentiable(ctx, tensors, grads)
        if ctx.made is None:
            return None, None, None, *_gradients(ctx.mode, ctx.steps, ctx.reverse, ctx.trace, tensors, grads)
        found = iter(_all_gradients(ctx.mode, ctx.steps.count, ctx.steps.length, ctx.reverse, tensors, grads, ctx.made))
        return None, None, None, *(None if each is None else next(found) for each in tensors)


def _differentiable(ctx: Any, tensors: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return gradients that can be differentiated again: those of the steps recorded one by one."""
    again: Any = [None if each is None else each.view_as(each) for each in tensors]
    results = _recorded(ctx.mode, ctx.steps, ctx.reverse, *again)
    ends, seeds = zip(*[each for each in zip(results, grads, strict=False) if each[1] is not None], strict=True)
    wanted = [each for each in again if each is not None and each.requires_grad]
    found = iter(torch.autograd.grad(ends, wanted, seeds, create_graph=True, allow_unused=True))
    return tuple(None if each is None or not each.requires_grad else next(found) for each in again)


@remembered
def _all_gradients(
    mode: str, count: int, length: int, reverse: bool, tensors: tuple[Maybe, ...], grads: tuple[Maybe, ...], made: list[Tensor]
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients of those tensors that there are, of sequences of one length: all steps are recorded as one call."""
    projected, hidden, cell, *_ = tensors
    steps = _Steps(count, length, None, projected.device)  # type: ignore[union-attr]
    trace = _Trace.of(mode, hidden, cell, length, made)  # type: ignore[arg-type]
    return tuple(each for each in _gradients(mode, steps, reverse, trace, tensors, grads) if each is not None)


def _gradients(
    mode: str, steps: _Steps, reverse: bool, trace: _Trace, tensors: tuple[Any, ...], grads: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the gradients of the tensors of :func:`_scan`."""
    projected, _, _, weight, bias, projection = tensors
    grad_outputs, grad_hidden, grad_cell = (*grads, None)[:3]
    of_given: list[Tensor] = []
    of_product: list[Tensor] = []
    of_hidden: list[Tensor] = []
    for number, step in reversed(list(enumerate(steps.order(reverse)))):
        running = steps.running(step)
        grad = torch.zeros_like(trace.outputs[number]) if grad_hidden is None else grad_hidden
        ended = None if running is None else torch.where(running, 0, grad)
        grad = grad if grad_outputs is None else grad + steps.read(grad_outputs, step)
        grad = grad if running is None else torch.where(running, grad, 0)
        if projection is not None:
            of_hidden.append(grad)
            grad = grad @ projection
        if mode == "GRU":
            given, direct, ended_too = _gru_step_backward(
                steps.read(projected, step), trace.gates[number], trace.hidden[number], grad
            )
            ended = _total(ended, ended_too)
            of_product.append(direct)
        elif mode == "LSTM":
            ended_cell = None
            if running is not None and grad_cell is not None:
                ended_cell, grad_cell = torch.where(running, 0, grad_cell), torch.where(running, grad_cell, 0)
            given, grad_cell = _lstm_step_backward(
                trace.gates[number], trace.cell[number], trace.after[number], grad, grad_cell
            )
            grad_cell = _total(grad_cell, ended_cell)
        else:
            after = trace.after[number]
            given = grad * (1 - after * after) if mode == "RNN_TANH" else grad * (after > 0)
        of_given.append(given)
        grad_hidden = _total((of_product or of_given)[-1] @ weight, ended)
    products = torch.cat((of_product or of_given)[::-1])
    of_weight = products.t() @ torch.cat(trace.hidden)
    of_projection = None if projection is None else torch.cat(of_hidden[::-1]).t() @ torch.cat(trace.inner)
    of_bias = None if bias is None else products.sum(0)
    of_projected = steps.joined(of_given if reverse else of_given[::-1])
    return of_projected, grad_hidden, grad_cell if mode == "LSTM" else None, of_weight, of_bias, of_projection


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
    mode: str, steps: _Steps, reverse: bool, data: Tensor, hidden: Tensor, cell: Maybe, weights: _Weights
) -> tuple[Tensor, Tensor, Maybe]:
    bias, step_bias = weights.input_bias, weights.hidden_bias
    if mode != "GRU" and bias is not None and step_bias is not None:
        bias, step_bias = bias + step_bias, None
    projected = linear(data, weights.input, bias)
    tensors = projected, hidden, cell, weights.hidden, step_bias, weights.projection
    if steps.sizes is None and not torch.is_grad_enabled():
        output, last, *cells = _untracked(mode, steps.count, steps.length, reverse, *tensors)
    else:
        # Inside autocast regions steps convert what they multiply.
        apply = _recorded if torch.is_autocast_enabled(data.device.type) else _Layer.apply
        output, last, *cells = apply(mode, steps, reverse, *tensors)
    return output, last, cells[0] if cells else None


def _run(
    mode: str, data: Tensor, steps: _Steps, hidden: Tensor, cells: Maybe, params: Sequence[Tensor], has_biases: bool,
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
    steps = _Steps(count, length, None, input.device)
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
    steps = _Steps(sizes[0], len(sizes), ragged, data.device)
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
    return _lstm_step(linear(input, w_ih, b_ih) + linear(hx[0], w_hh, b_hh), hx[1])


def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of :func:`gru`: input [n, features], hx [n, hidden]; the next hidden state."""
    _check_cell(input, hx, w_ih, w_hh, 3, "hidden0")
    return _gru_step(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh), hx)


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
