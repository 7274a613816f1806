"""Softmax over many classes of uneven frequency."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.container import ModuleList, Sequential
from webgpu_torch_nn.modules.linear import Linear
from webgpu_torch_nn.modules.module import Module

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-softmax in two levels: frequent classes at once, rare ones within clusters (Grave et al., 2017).

    Args:
        in_features: size of the input's last dimension.
        n_classes: number of classes, the most frequent first.
        cutoffs: the first class of every cluster, increasing; the classes before the first belong to no cluster.
        div_value: by how much more each next cluster shrinks the features.
        head_bias: whether the first level has a bias.

    Shapes: input [n, in_features] and target [n], or [in_features] and []; returns ``output``, the targets'
    log-probabilities in the target's shape, and ``loss``, the negative mean of them.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        first = list(cutoffs)
        if not first:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(each) == each for each in first)
        if not (whole and all(a < b for a, b in pairwise([0, *first, n_classes]))):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1, got {first} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*first, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = first[0]
        self.n_clusters = len(first)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(pairwise(self.cutoffs), 1):
            inner = int(in_features // div_value**number)
            self.tail.append(
                Sequential(
                    Linear(in_features, inner, bias=False, device=device, dtype=dtype),
                    Linear(inner, high - low, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def _check(self, input: Tensor, target: Tensor) -> None:
        if target.ndim not in (0, 1):
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if target.ndim == 1 and input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.ndim != target.ndim + 1:
            raise RuntimeError(
                f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, "
                f"but found inputs with size {input.size()}"
            )

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        self._check(input_, target_)
        alone = target_.ndim == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if alone else (input_, target_)
        # Only the rows of a cluster go through its part of the tail, so that their number has to be known.
        output, picked = input.new_zeros(target.shape[0]), target
        used = int((target < self.shortlist_size).logical_and(target >= 0).sum().item())
        for number, (low, high) in enumerate(pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            used += rows.numel()
            scores = F.log_softmax(self.tail[number](input.index_select(0, rows)), dim=1)
            relative = target.index_select(0, rows) - low
            output = output.index_add(0, rows, scores.gather(1, relative.unsqueeze(1)).squeeze(1))
            picked = picked.masked_fill(inside, self.shortlist_size + number)
        if used != target.shape[0]:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, picked.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if alone else output, loss)

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for number, cluster in enumerate(self.tail):
            share = head[:, self.shortlist_size + number].unsqueeze(1)
            parts.append(F.log_softmax(cluster(input), dim=1) + share)
        return torch.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes, [n, n_classes], for input [n, in_features]."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of every row, [n], of input [n, in_features]."""
        head_output = self.head(input)
        best = head_output.argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel() == 0:
            return best
        whole = self._get_full_log_prob(input.index_select(0, rows), head_output.index_select(0, rows))
        return best.index_copy(0, rows, whole.argmax(1))
