"""The steps of recurrent layers, and their gradients.

The products of all inputs with their weights are one matrix product, as are, in backward, those that give the gradients
of the weights (Appleyard et al., 2016). What is left per step is one product with the hidden state and one pass over the
gates; rows are found by numbers that change from step to step, so that all steps share their kernels. All steps of sequences of
one length are recorded as one remembered call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.api.functional import linear
from webgpu_torch_core.operations.common import needs_gradient
from webgpu_torch_core.operations.indexing.gathering import take_positions
from webgpu_torch_core.operations.indexing.parts import consecutive_rows
from webgpu_torch_core.replay.recipes import remembered

Maybe = Tensor | None


@remembered
def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the hidden state and the cell after a step, given the sums of both products [n, 4 * hidden]."""
    entering, forgetting, candidate, leaving = gates.chunk(4, -1)
    cell = forgetting.sigmoid() * cell + entering.sigmoid() * candidate.tanh()
    return leaving.sigmoid() * cell.tanh(), cell


@remembered
def gru_step(given: Tensor, gates: Tensor, hidden: Tensor) -> Tensor:
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


class Steps:
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
        if self.sizes is None and not needs_gradient(data):
            return consecutive_rows(data, self.offsets[step], self.count)
        index = self.rows + self.offsets[step]
        return _rows(data, index if self.sizes is None else index.clamp(max=self.total - 1))

    def running(self, step: int) -> Tensor | None:
        """Return which rows have not ended, None if all."""
        return None if self.sizes is None else (self.rows < self.sizes[step]).unsqueeze(1)

    def joined(self, each: list[Tensor], reverse: bool) -> Tensor:
        """Return what steps gave, each of them all rows, as data [rows, features]; ``reverse``: the last step's first."""
        rows = torch.cat(each[::-1] if reverse else each)
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
    mode: str, steps: Steps, reverse: bool, projected: Tensor, hidden: Tensor, cell: Maybe, weight: Tensor, bias: Maybe,
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
            new = gru_step(given, product, hidden)
        else:
            gates = given + product
            if cell is None:
                new = after = gates.tanh() if mode == "RNN_TANH" else gates.relu()
            else:
                trace.gates.append(gates)
                trace.cell.append(cell)
                new, after = lstm_step(gates, cell)
                cell = _kept(running, after, cell)
            trace.after.append(after)
        if projection is not None:
            trace.inner.append(new)
            new = linear(new, projection)
        hidden = _kept(running, new, hidden)
        trace.outputs.append(hidden)
    return hidden, cell, trace


def recorded(mode: str, steps: Steps, reverse: bool, *tensors: Maybe) -> tuple[Tensor, ...]:
    """Return what :class:`Layer` does, its steps recorded one by one."""
    last, last_cell, trace = _scan(mode, steps, reverse, *tensors)  # type: ignore[arg-type]
    results = (steps.joined(trace.outputs, reverse), last)
    return results if last_cell is None else (*results, last_cell)


@remembered
def untracked(mode: str, count: int, length: int, reverse: bool, data: Tensor, *rest: Maybe) -> tuple[Tensor, ...]:
    """Return the same of sequences of one length, where no gradients are recorded."""
    return recorded(mode, Steps(count, length, None, data.device), reverse, data, *rest)


@remembered
def _scanned(mode: str, count: int, length: int, reverse: bool, *tensors: Maybe) -> tuple[Tensor, ...]:
    """Return the output of sequences of one length, and what :meth:`_Trace.of` takes: all steps are recorded as one call."""
    steps = Steps(count, length, None, tensors[0].device)  # type: ignore[union-attr]
    *_, trace = _scan(mode, steps, reverse, *tensors)  # type: ignore[arg-type]
    after = trace.after if mode == "LSTM" else []
    return (steps.joined(trace.outputs, reverse), *trace.outputs, *trace.gates, *after, *trace.inner)


class Layer(torch.autograd.Function):
    """One direction of one layer, with the gradients of weights summed over all steps at once.

    Arguments: mode, steps, reverse, then the tensors of :func:`_scan`. Returns the output [rows, features], the last
    hidden state and, of an LSTM, the last cell.
    """

    transformed = True

    @staticmethod
    def forward(ctx: Any, mode: str, steps: Steps, reverse: bool, *tensors: Any) -> tuple[Tensor, ...]:
        _, hidden, cell, *_ = tensors
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.mode, ctx.steps, ctx.reverse = mode, steps, reverse
        if steps.sizes is None:
            output, *ctx.made = _scanned(mode, steps.count, steps.length, reverse, *tensors)
            trace = _Trace.of(mode, hidden, cell, steps.length, ctx.made)
            last, last_cell = trace.outputs[-1], trace.after[-1] if mode == "LSTM" else None
        else:
            last, last_cell, ctx.trace = _scan(mode, steps, reverse, *tensors)
            output = steps.joined(ctx.trace.outputs, reverse)
        # Copies: the states themselves stay as backward needs them.
        results = (output, last.clone())
        return results if last_cell is None else (*results, last_cell.clone())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            return None, None, None, *_differentiable(ctx, tensors, grads)
        if ctx.steps.sizes is not None:
            return None, None, None, *_gradients(ctx.mode, ctx.steps, ctx.reverse, ctx.trace, tensors, grads)
        found = iter(_all_gradients(ctx.mode, ctx.steps.count, ctx.steps.length, ctx.reverse, tensors, grads, ctx.made))
        return None, None, None, *(None if each is None else next(found) for each in tensors)


def _differentiable(ctx: Any, tensors: tuple[Any, ...], grads: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return gradients that can be differentiated again: those of the steps recorded one by one."""
    again: Any = [None if each is None else each.view_as(each) for each in tensors]
    results = recorded(ctx.mode, ctx.steps, ctx.reverse, *again)
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
    steps = Steps(count, length, None, projected.device)  # type: ignore[union-attr]
    trace = _Trace.of(mode, hidden, cell, length, made)  # type: ignore[arg-type]
    return tuple(each for each in _gradients(mode, steps, reverse, trace, tensors, grads) if each is not None)


def _gradients(
    mode: str, steps: Steps, reverse: bool, trace: _Trace, tensors: tuple[Any, ...], grads: tuple[Any, ...]
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
    of_projected = steps.joined(of_given, not reverse)
    return of_projected, grad_hidden, grad_cell if mode == "LSTM" else None, of_weight, of_bias, of_projection
