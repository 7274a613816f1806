"""Recurrent networks: Elman's, long short-term memory, gated recurrent units; whole and one step at a time."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.notices import warn

from webgpu_torch_nn import init
from webgpu_torch_nn.functional import recurrent
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.parameter import Parameter
from webgpu_torch_nn.utils.rnn import PackedSequence

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _start(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0
    for weight in module.parameters():
        init.uniform_(weight, -bound, bound)


def _check_type(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        _check_type(name, size, int)
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """What recurrent networks of several layers share: weights, their names and starting values, checks.

    Args:
        mode: LSTM, GRU, RNN_TANH or RNN_RELU.
        input_size: features of the input.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each on the outputs of the one before.
        bias: whether there are biases.
        batch_first: whether input and output are [n, length, features], not [length, n, features].
        dropout: probability of dropping outputs of all layers but the last, while training.
        bidirectional: whether every layer also runs backwards.
        proj_size: features that an LSTM's hidden state is projected to; 0 for no projection.

    Weights, per layer ``k`` (and with the suffix ``_reverse``): ``weight_ih_lk`` [gates * hidden_size, input], ``weight_hh_lk``
    [gates * hidden_size, hidden], ``bias_ih_lk`` and ``bias_hh_lk`` [gates * hidden_size], ``weight_hr_lk`` [proj_size,
    hidden_size]; all uniform over ±1 / sqrt(hidden_size).
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._check_dropout(dropout)
        _check_type("bias", bias, bool)
        _check_type("batch_first", batch_first, bool)
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        if mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                shapes = self._shapes(layer, f"_l{layer}{'_reverse' if direction else ''}")
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(torch.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(shapes))
        self.reset_parameters()

    def _check_dropout(self, dropout: Any) -> None:
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= self.dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if self.dropout > 0 and self.num_layers == 1:
            warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
                f"greater than 1, but got dropout={dropout} and num_layers={self.num_layers}",
            )

    def _shapes(self, layer: int, suffix: str) -> dict[str, tuple[int, ...]]:
        """Return the names and shapes of one direction of a layer, in PyTorch's order."""
        rows, states = _GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        features = self.input_size if layer == 0 else states * (2 if self.bidirectional else 1)
        shapes: dict[str, tuple[int, ...]] = {
            f"weight_ih{suffix}": (rows, features),
            f"weight_hh{suffix}": (rows, states),
        }
        if self.bias:
            shapes |= {f"bias_ih{suffix}": (rows,), f"bias_hh{suffix}": (rows,)}
        if self.proj_size:
            shapes[f"weight_hr{suffix}"] = (self.proj_size, self.hidden_size)
        return shapes

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        _start(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Do nothing: weights need not lie next to each other."""

    @property
    def _flat_weights(self) -> list[Any]:
        return [getattr(self, name, None) for names in self._all_weights for name in names]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of every direction of every layer."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Check the input's type and shape.

        Raises:
            ValueError: another element type than the weights', outside of autocast regions.
            RuntimeError: another shape than asked for.
        """
        kind = self._flat_weights[0].dtype
        if input.dtype != kind and not torch.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({kind}). Convert input: input.to({kind}), or "
                f"convert model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _state_shape(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        if batch_sizes is not None:
            count = int(batch_sizes[0])
        else:
            count = input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), count, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape that the first hidden states must have."""
        return self._state_shape(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self, hx: Tensor, expected_hidden_size: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}"
    ) -> None:
        """Check the shape of first hidden states.

        Raises:
            RuntimeError: it is another.
        """
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the input and the first hidden states."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return hidden states in another order of the batch."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        return torch.zeros(self.get_expected_hidden_size(input, batch_sizes), dtype=input.dtype, device=input.device)

    def _expect_rank(self, hx: Any, rank: int) -> None:
        if hx.dim() != rank:
            kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should also be {rank}-D but got {hx.dim()}-D tensor")

    def _each_state(self, hx: Any, change: Callable[[Tensor], Tensor]) -> Any:
        return change(hx)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Return the last layer's hidden states of all steps, and the last hidden states of all layers."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            name = self.mode.partition("_")[0]
            tail = " tensor" if self.mode.startswith("RNN") else ""
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D{tail} instead")
        batched, batch_dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None:
            self._expect_rank(hx, input.dim())
        if not batched:
            input = input.unsqueeze(batch_dim)
            hx = None if hx is None else self._each_state(hx, lambda state: state.unsqueeze(1))
        if hx is None:
            hx = self._zeros(input, None)
        self.check_forward_args(input, hx, None)
        output, hidden = self._run(input, None, hx)
        if not batched:
            return output.squeeze(batch_dim), self._each_state(hidden, lambda state: state.squeeze(1))
        return output, hidden

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, sorted_indices, unsorted_indices = input
        hx = self._zeros(data, batch_sizes) if hx is None else self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(data, hx, batch_sizes)
        output, hidden = self._run(data, batch_sizes, hx)
        packed = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return packed, self.permute_hidden(hidden, unsorted_indices)

    def _run(self, input: Tensor, batch_sizes: Tensor | None, hx: Any) -> tuple[Tensor, Any]:
        function = getattr(recurrent, self.mode.lower())
        options = (
            self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional,
        )  # fmt: skip
        if batch_sizes is None:
            results = function(input, hx, *options, self.batch_first)
        else:
            results = function(input, batch_sizes, hx, *options)
        return results[0], results[1] if len(results) == 2 else results[1:]

    def extra_repr(self) -> str:
        defaults = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        defaults["bidirectional"] = False
        more = (f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value)
        return ", ".join([str(self.input_size), str(self.hidden_size), *more])

    def __getstate__(self) -> dict:
        # PyTorch's modules find their weights in these lists.
        lists = {"_flat_weights": self._flat_weights, "_flat_weights_names": self._flat_weights_names}
        return super().__getstate__() | lists

    def __setstate__(self, state: dict) -> None:
        # Modules pickled by PyTorch bring lists of their weights along; here these follow from the names.
        for name in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):
            state.pop(name, None)
        state.setdefault("proj_size", 0)
        super().__setstate__(state)


class RNN(RNNBase):
    """Elman's network: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu for tanh.

    Arguments are those of :class:`RNNBase` without ``mode`` and ``proj_size``, with ``nonlinearity`` ("tanh" or "relu") after
    ``num_layers``.

    Shapes: input [length, n, input_size] and hx [num_layers * directions, n, hidden_size], or both without n, or the input
    packed; output [length, n, directions * hidden_size] and hx's shape.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with projections (Sak et al., 2014).

        i, f, g, o = W_ih x + b_ih + W_hh h + b_hh        c = σ(f) c + σ(i) tanh(g)        h = W_hr (σ(o) tanh(c))

    Arguments are those of :class:`RNNBase` without ``mode``.

    Shapes: input [length, n, input_size] and hx a pair (h, c) of [num_layers * directions, n, proj_size or hidden_size] and
    [num_layers * directions, n, hidden_size], or all without n, or the input packed; output [length, n, directions * h's size]
    and a pair as hx.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape that the first cells must have."""
        return self._state_shape(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Check the input, the first hidden states and the first cells."""
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], expected, "Expected hidden[0] size {}, got {}")
        expected = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], expected, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """Return hidden states and cells in another order of the batch."""
        return hx if permutation is None else self._each_state(hx, lambda state: state.index_select(1, permutation))

    def _zeros(self, input: Tensor, batch_sizes: Tensor | None) -> Any:
        shape = self.get_expected_cell_size(input, batch_sizes)
        return super()._zeros(input, batch_sizes), torch.zeros(shape, dtype=input.dtype, device=input.device)

    def _expect_rank(self, hx: Any, rank: int) -> None:
        if hx[0].dim() != rank or hx[1].dim() != rank:
            kind = "batched 3-D" if rank == 3 else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {rank}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )

    def _each_state(self, hx: Any, change: Callable[[Tensor], Tensor]) -> Any:
        return change(hx[0]), change(hx[1])


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014).

        r, z = σ(W x + b + W_hh h + b_hh)        n = tanh(W x + b + r (W_hh h + b_hh))        h = (1 - z) n + z h

    Arguments are those of :class:`RNNBase` without ``mode`` and ``proj_size``; shapes are those of :class:`RNN`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """What single steps share: ``weight_ih`` [chunks * hidden_size, input_size], ``weight_hh`` [chunks * hidden_size,
    hidden_size], ``bias_ih`` and ``bias_hh`` [chunks * hidden_size], all uniform over ±1 / sqrt(hidden_size).
    """

    bias_ih: Any
    bias_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(torch.empty((rows, input_size), device=device, dtype=dtype))
        self.weight_hh = Parameter(torch.empty((rows, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(torch.empty(rows, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values."""
        _start(self, self.hidden_size)

    def _weights(self) -> tuple[Any, ...]:
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check_ranks(self, input: Tensor, states: dict[str, Tensor]) -> None:
        for name, each in {"input": input, **states}.items():
            if each.dim() not in (1, 2):
                raise ValueError(f"{self._get_name()}: Expected {name} to be 1D or 2D, got {each.dim()}D instead")

    def _step(self, function: Callable[..., Tensor], input: Tensor, hx: Tensor | None) -> Tensor:
        """Run a step of a cell with one state, adding the batch dimension where there is none."""
        self._check_ranks(input, {} if hx is None else {"hidden": hx})
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            hx = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
        elif not batched:
            hx = hx.unsqueeze(0)
        result = function(input, hx, *self._weights())
        return result if batched else result.squeeze(0)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += "" if self.bias is True else f", bias={self.bias}"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"


class RNNCell(RNNCellBase):
    """One step of :class:`RNN`: input [n, input_size] and hx [n, hidden_size] (or both without n) to the next hx."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        cell = recurrent.rnn_tanh_cell if self.nonlinearity == "tanh" else recurrent.rnn_relu_cell
        return self._step(cell, input, hx)


class LSTMCell(RNNCellBase):
    """One step of :class:`LSTM`: input [n, input_size] and a pair hx of [n, hidden_size] (or all without n) to the next."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check_ranks(input, {} if hx is None else {f"hx[{number}]": each for number, each in enumerate(hx)})
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = torch.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = zeros, zeros
        elif not batched:
            hx = hx[0].unsqueeze(0), hx[1].unsqueeze(0)
        hidden, cell = recurrent.lstm_cell(input, hx, *self._weights())
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of :class:`GRU`: input [n, input_size] and hx [n, hidden_size] (or both without n) to the next hx."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(recurrent.gru_cell, input, hx)
