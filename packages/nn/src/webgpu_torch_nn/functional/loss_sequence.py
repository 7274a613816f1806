"""Losses of sequences without alignment: connectionist temporal classification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.autograd.function import Function
from webgpu_torch_core.autograd.once import once_differentiable
from webgpu_torch_core.operations.indexing.gathering import gather_known
from webgpu_torch_core.operations.indexing.index_checks import check_positions
from webgpu_torch_core.operations.indexing.parts import consecutive_rows
from webgpu_torch_core.replay.recipes import remembered

from ._arguments import wide


def _lengths(given: Tensor | Sequence[int], like: Tensor, count: int, name: str, most: int | None = None) -> Tensor:
    """Return lengths as a tensor; those that the host knows are looked at: from 0, and ``most`` at most."""
    if isinstance(given, Tensor) and given.dtype.category != 1:
        raise RuntimeError(f"{name} must be integral")
    if not isinstance(given, Tensor) or given.device.type == "cpu":
        numbers = given.reshape(-1).tolist() if isinstance(given, Tensor) else given
        for each in numbers:
            if each < 0 or (most is not None and each > most):
                bound = "at least 0" if each < 0 else f"at most {most}"
                raise RuntimeError(
                    f"Expected {name} to have value {bound}, but got value {each} (while checking arguments for "
                    "ctc_loss_allocate_outputs)"
                )
    found = given if isinstance(given, Tensor) else torch.tensor(list(given), dtype=torch.int64)
    found = found.to(device=like.device, dtype=torch.int64).reshape(-1)
    if found.shape[0] != count:
        raise RuntimeError(f"{name} must be of size batch_size")
    return found


def _padded_targets(targets: Tensor, lengths: Tensor, given: Tensor | Sequence[int], count: int) -> Tensor:
    """Return targets as [n, longest]: from rows, or from one after another in one dimension."""
    if targets.ndim == 2:
        return targets
    numbers = given.reshape(-1).tolist() if isinstance(given, Tensor) else list(given)
    longest = max(numbers, default=0)
    if longest == 0:
        return targets.new_zeros((count, 0))
    starts = (lengths.cumsum(0) - lengths).unsqueeze(1)
    places = starts + torch.arange(longest, device=targets.device)
    return targets[places.clamp(max=max(targets.numel() - 1, 0))]


class _States:
    """The states between which a row's paths move: blank, y1, blank, y2, …, blank."""

    def __init__(self, labels: Tensor, blank: int) -> None:
        count, longest = labels.shape
        self.labels = torch.full((count, 2 * longest + 1), blank, dtype=torch.int64, device=labels.device)
        if longest:
            self.labels[:, 1::2] = labels

    def emitted(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Return every state's log-probability in every frame, [t, n, states].

        Raises:
            RuntimeError: one of the ``labels`` that the states were made of is no class.
        """
        report = check_positions("gather", labels, log_probs.shape[2], 2, by_reader=log_probs.numel() > 0)
        index = self.labels.unsqueeze(0).expand(log_probs.shape[0], *self.labels.shape)
        return gather_known(log_probs, 2, index, report)

    def jumps(self, like: Tensor) -> Tensor:
        """Return 0 where a path may come from two states back (another label, past a blank), -inf elsewhere."""
        places = torch.arange(self.labels.shape[1], device=self.labels.device)
        earlier = torch.cat([self.labels[:, :2], self.labels[:, :-2]], 1)[:, : self.labels.shape[1]]
        allowed = (places % 2 == 1) & (self.labels != earlier)
        return torch.where(allowed, like.new_zeros(()), like.new_full((), -math.inf))


def _frame(values: Tensor, frame: int) -> Tensor:
    """Return what there is of a frame: all frames share their kernels."""
    return consecutive_rows(values, frame, 1).squeeze(0)


@remembered
def _forward_variables(emitted: Tensor, jumps: Tensor) -> Tensor:
    """Return the log-probability of all paths into each state up to each frame, the frame included: [t, n, states]."""
    frames, count, states = emitted.shape
    never = emitted.new_full((count, 2), -math.inf)
    starts = torch.arange(states, device=emitted.device) < 2
    # Behind two states that no path is in, which each state has behind it.
    alpha = torch.cat([never, torch.where(starts, emitted[0], never[:, :1])], 1)
    found = [alpha]
    for frame in range(1, frames):
        stayed = torch.logaddexp(alpha[:, 2:], alpha[:, 1:-1])
        moved = torch.logaddexp(stayed, alpha[:, :-2] + jumps)
        alpha = torch.cat([never, moved + _frame(emitted, frame)], 1)
        found.append(alpha)
    return torch.stack([each[:, 2:] for each in found])


def _shares(alpha: Tensor, jumps: Tensor) -> list[Tensor]:
    """Return how much of each state's paths came from the state itself, the one before and the one before that.

    Three tensors [t - 1, n, states + 2], two states of nothing at the end.
    """
    never = alpha.new_full((alpha.shape[0] - 1, alpha.shape[1], 2), -math.inf)
    behind = torch.cat([never, alpha[:-1]], 2)
    ways = (behind[:, :, 2:], behind[:, :, 1:-1], behind[:, :, :-2] + jumps)
    top = torch.maximum(torch.maximum(ways[0], ways[1]), ways[2])
    top = torch.where(top == -math.inf, 0.0, top)
    parts = [(each - top).exp() for each in ways]
    total = parts[0] + parts[1] + parts[2]
    total = torch.where(total == 0, 1.0, total)
    return [torch.cat([each / total, torch.zeros_like(never)], 2) for each in parts]


@remembered
def _occupations(alpha: Tensor, jumps: Tensor, ends: Tensor, last: Tensor) -> Tensor:
    """Return the probability of being in each state in each frame, [t, n, states].

    It flows back from frame to frame in the shares in which paths came, which never subtracts large numbers.
    ``ends`` [n, states] holds the probabilities in each row's last frame, ``last`` [n].
    """
    frames, count, _ = alpha.shape
    nothing = alpha.new_zeros((count, 2))
    stayed, stepped, jumped = _shares(alpha, jumps)
    found: list[Tensor] = []
    for frame in reversed(range(frames)):
        now = torch.zeros_like(ends)
        if found:
            later = found[-1]
            now = later[:, :-2] * _frame(stayed, frame)[:, :-2] + later[:, 1:-1] * _frame(stepped, frame)[:, 1:-1]
            now = now + later[:, 2:] * _frame(jumped, frame)[:, 2:]
        now = torch.where((last == frame).unsqueeze(1), ends, now)
        found.append(torch.cat([now, nothing], 1))
    return torch.stack([each[:, :-2] for each in found[::-1]])


@remembered
def _aligned(log_probs: Tensor, labels: Tensor, frames: Tensor, sizes: Tensor, blank: int) -> tuple[Tensor, ...]:
    """Return the loss of each row, and what its gradient is made of: the states' labels, jumps, variables and probabilities at the end."""
    states = _States(labels, blank)
    emitted, jumps = states.emitted(log_probs, labels), states.jumps(log_probs)
    alpha = _forward_variables(emitted, jumps)
    places = torch.arange(emitted.shape[2], device=emitted.device)
    final = (2 * sizes).unsqueeze(1)
    last = (frames - 1).clamp(min=0)
    reached = gather_known(alpha, 0, last.reshape(1, -1, 1).expand(1, *alpha.shape[1:])).squeeze(0)
    reached = torch.where((places == final) | (places == final - 1), reached, log_probs.new_full((), -math.inf))
    loss = -reached.logsumexp(1)
    # A row without frames: certain for no labels, impossible for any.
    nothing = torch.where(sizes == 0, log_probs.new_zeros(()), log_probs.new_full((), math.inf))
    loss = torch.where(frames == 0, nothing, loss)
    return loss, states.labels, jumps, alpha, (reached + loss.unsqueeze(1)).exp()


@remembered
def _gradient_of(
    log_probs: Tensor, labels: Tensor, jumps: Tensor, alpha: Tensor, ends: Tensor, frames: Tensor, loss: Tensor,
    gradient: Tensor, zero_infinity: bool,
) -> Tensor:  # fmt: skip
    """Return the gradient of the log-probabilities."""
    visited = _occupations(alpha, jumps, ends, frames - 1)
    share = torch.zeros_like(log_probs).scatter_add(2, labels.unsqueeze(0).expand(visited.shape), visited)
    # That of normalised frames, as PyTorch's: the probabilities are what log_softmax then takes away.
    # An impossible row has none; its infinite loss makes it NaN.
    result = (log_probs.exp() - share + (loss - loss).unsqueeze(1)) * gradient.unsqueeze(1)
    counted = torch.arange(log_probs.shape[0], device=frames.device).unsqueeze(1) < frames
    if zero_infinity:
        counted = counted & (loss != math.inf)
    return torch.where(counted.unsqueeze(2), result, log_probs.new_zeros(()))


class _Alignment(Function):
    """The loss of each row, and its gradient from the probabilities of each frame's states."""

    transformed = True

    @staticmethod
    def forward(
        context: Any, log_probs: Tensor, labels: Tensor, frames: Tensor, sizes: Tensor, blank: int, zero_infinity: bool
    ) -> Tensor:
        loss, *found = _aligned(log_probs, labels, frames, sizes, blank)
        if any(context.needs_input_grad):
            context.save_for_backward(log_probs, *found, frames, loss)
            context.zero_infinity = zero_infinity
        return torch.where(loss == math.inf, log_probs.new_zeros(()), loss) if zero_infinity else loss

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        log_probs, labels, jumps, alpha, ends, frames, loss = context.saved_tensors
        result = _gradient_of(log_probs, labels, jumps, alpha, ends, frames, loss, gradient, context.zero_infinity)
        return result, None, None, None, None, None


def _check_targets(targets: Tensor, lengths: Tensor | Sequence[int], count: int) -> None:
    """Raise PyTorch's errors for targets whose sizes do not fit their number, or the lengths where those are known."""
    where = "for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
    if targets.ndim not in (1, 2):
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor {where}")
    if targets.ndim == 2 and targets.shape[0] != count:
        raise RuntimeError(
            f"Expected tensor to have size {count} at dimension 0, but got size {targets.shape[0]} {where}"
        )
    if isinstance(lengths, Tensor):
        return
    if targets.ndim == 2 and targets.shape[1] < max(lengths, default=0):
        raise RuntimeError(
            f"Expected tensor to have size at least {max(lengths)} at dimension 1, but got size {targets.shape[1]} {where}"
        )
    if targets.ndim == 1 and targets.shape[0] != sum(lengths):
        raise RuntimeError(
            f"Expected tensor to have size {sum(lengths)} at dimension 0, but got size {targets.shape[0]} {where}"
        )


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int], target_lengths: Tensor | Sequence[int],
    blank: int = 0, reduction: str = "mean", zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The negative log-likelihood of label sequences without alignment (Graves et al., 2006).

    log_probs [t, n, c] or [t, c]; targets [n, s] or all labels one after another; ``mean`` divides by the target lengths.
    """
    if log_probs.ndim == 2:
        loss = ctc_loss(
            log_probs.unsqueeze(1), targets if targets.ndim == 2 else targets.unsqueeze(0), input_lengths, target_lengths,
            blank, reduction, zero_infinity,
        )  # fmt: skip
        return loss.squeeze(0) if reduction == "none" else loss
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{log_probs.dtype.title}'")
    if not 0 <= blank < log_probs.shape[2]:
        raise RuntimeError("blank must be in label range")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    count = log_probs.shape[1]
    frames = _lengths(input_lengths, log_probs, count, "input_lengths", log_probs.shape[0])
    sizes = _lengths(target_lengths, log_probs, count, "target_lengths")
    _check_targets(targets, target_lengths, count)
    labels = _padded_targets(targets.to(torch.int64), sizes, target_lengths, count)
    inside = torch.arange(labels.shape[1], device=labels.device) < sizes.unsqueeze(1)
    labels = torch.where(inside, labels, torch.full_like(labels, blank))
    loss = _Alignment.apply(wide(log_probs), labels, frames, sizes, blank, zero_infinity).to(log_probs.dtype)
    if reduction == "mean":
        return (loss / sizes.clamp(min=1).to(loss.dtype)).mean()
    return loss.sum() if reduction == "sum" else loss
