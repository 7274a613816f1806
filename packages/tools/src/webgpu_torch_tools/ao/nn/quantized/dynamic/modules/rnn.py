"""Recurrent networks with weights in integers, for numbers that are quantised when they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import ClassVar

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch.library import ops
from webgpu_torch_core import Tensor
from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules import rnn as floating

from ......_quantized.packed import LinearPackedParams
from ...modules.linear import HalfPacked
from ...modules.utils import _quantize_weight, require_type

States = tuple[Tensor, ...]


def _multiplied(input: Tensor, packed: Answer) -> Tensor:
    """Return ``input @ weight.T + bias``: ``[n, features]`` and ``[rows, features]`` give ``[n, rows]``."""
    if isinstance(packed, HalfPacked):
        return F.linear(input, *packed.unpack())
    return ops.quantized.linear_dynamic(input, packed, reduce_range=True)


def _lstm(x: Tensor, h: Tensor, states: States) -> States:
    i, f, g, o = (x + h).chunk(4, 1)
    c = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(x: Tensor, h: Tensor, states: States) -> States:
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3, 1), h.chunk(3, 1)
    n = (xn + (xr + hr).sigmoid() * hn).tanh()
    return ((states[0] - n) * (xz + hz).sigmoid() + n,)


def _pack(weight: Tensor, bias: Tensor | None, qconfig: Answer) -> Answer:
    """Return a weight of floating-point numbers as it is computed with, in the type of a configuration.

    Raises:
        RuntimeError: the type is another one than ``torch.qint8`` and ``torch.float16``.
    """
    observer = qconfig.weight()
    if observer.dtype is torch.float16:
        return HalfPacked(weight.detach().float(), bias)
    if observer.dtype is not torch.qint8:
        raise RuntimeError(f"Unsupported dtype specified for dynamic quantized RNN: {observer.dtype}")
    observer(weight)
    kept = None if bias is None else bias.detach()
    return LinearPackedParams(_quantize_weight(weight.detach().float(), observer), kept)


def _repacked(pair: Answer) -> Answer:
    weight, bias = pair
    return LinearPackedParams(weight, bias) if weight.is_quantized else HalfPacked(weight, bias)


def _moved(packed: Answer, fn: Callable[..., Answer]) -> Answer:
    weight, bias = packed.unpack()
    device = fn(torch.empty(0, device=weight.device)).device
    if device == weight.device:
        return packed
    return _repacked((weight.to(device), None if bias is None else bias.to(device)))


class PackedParameter(nn.Module):
    """The weights of one direction of a layer.

    Args:
        param: the one of inputs and the one of states, as operations take them.
    """

    def __init__(self, param: tuple[Answer, Answer]) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = tuple(each.unpack() for each in self.param)

    def _load_from_state_dict(self, state_dict: dict[str, Answer], prefix: str, *rest: Answer) -> None:
        one, other = state_dict.pop(prefix + "param")
        self.param = (_repacked(one), _repacked(other))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Callable[..., Answer], recurse: bool = True) -> Answer:
        self.param = (_moved(self.param[0], fn), _moved(self.param[1], fn))
        return super()._apply(fn, recurse)


class RNNBase(floating.RNNBase):
    """What recurrent networks of several layers share.

    Args:
        mod: the network of floating-point numbers.
        qconfig: the configuration.
    """

    _version = 2
    _step: ClassVar[Callable[[Tensor, Tensor, States], States]]
    _FLOAT_MODULE: ClassVar[type]

    def __init__(self, mod: Answer, qconfig: Answer) -> None:
        nn.Module.__init__(self)
        for name in (
            "mode",
            "input_size",
            "hidden_size",
            "num_layers",
            "bias",
            "batch_first",
            "dropout",
            "bidirectional",
        ):
            setattr(self, name, getattr(mod, name))
        self.proj_size, self._all_weights = 0, []
        packed = []
        for weights in mod.all_weights:
            first, second, *biases = weights
            shifts = biases or (None, None)
            packed.append(PackedParameter((_pack(first, shifts[0], qconfig), _pack(second, shifts[1], qconfig))))
        self._all_weight_values = nn.ModuleList(packed)
        self.training = mod.training

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    @property
    def _flat_weights(self) -> list[Tensor]:
        # Whose type and place arguments are compared with: they are numbers, whatever the weights are.
        return [torch.empty(0, device=self._all_weight_values[0].param[0].unpack()[0].device)]  # type: ignore[index]

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def _run(self, input: Tensor, batch_sizes: Tensor | None, hx: Answer) -> tuple[Tensor, Answer]:
        turned = batch_sizes is None and self.batch_first
        steps = input.transpose(0, 1) if turned else input
        sizes = [steps.shape[1]] * steps.shape[0] if batch_sizes is None else batch_sizes.tolist()
        data, directions = steps.flatten(0, 1) if batch_sizes is None else input, 2 if self.bidirectional else 1
        states: States = hx if isinstance(hx, tuple) else (hx,)
        ends: list[States] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                number = layer * directions + direction
                begin = tuple(each[number] for each in states)
                weights: Answer = self._all_weight_values[number]
                result, end = self._pass(data, sizes, begin, weights.param, direction == 1)
                found.append(result)
                ends.append(end)
            data = torch.cat(found, -1)
            if layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, self.training)
        hidden = tuple(torch.stack([each[place] for each in ends]) for place in range(len(states)))
        output = data if batch_sizes is not None else data.unflatten(0, steps.shape[:2])
        return output.transpose(0, 1) if turned else output, hidden if isinstance(hx, tuple) else hidden[0]

    def _pass(
        self, data: Tensor, sizes: Sequence[int], states: States, weights: tuple[Answer, Answer], backwards: bool
    ) -> tuple[Tensor, States]:
        """Return the hidden states of all steps, one after the other, and the last states."""
        inputs = _multiplied(data, weights[0])
        starts, results = [0, *accumulate(sizes)], {}
        for step in reversed(range(len(sizes))) if backwards else range(len(sizes)):
            count, start = sizes[step], starts[step]
            now = tuple(each[:count] for each in states)
            made = type(self)._step(inputs[start : start + count], _multiplied(now[0], weights[1]), now)
            # Sequences that are over, or not begun, keep their states.
            states = tuple(torch.cat([new, old[count:]]) for new, old in zip(made, states, strict=True))
            results[step] = made[0]
        return torch.cat([results[step] for step in range(len(sizes))]), states

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the network for one of floating-point numbers.

        Raises:
            AssertionError: the module is no such network.
            NotImplementedError: its states are projected.
        """
        require_type(cls, mod, (cls._FLOAT_MODULE,))
        if mod.proj_size:
            raise NotImplementedError("proj_size: projected states are not quantized dynamically, in PyTorch neither")
        return cls(mod, mod.qconfig)


class LSTM(RNNBase, nn.LSTM):
    """:class:`torch.nn.LSTM`, ``[length, n, input_size]``, with weights in integers."""

    _step, _FLOAT_MODULE = staticmethod(_lstm), nn.LSTM


class GRU(RNNBase, nn.GRU):
    """:class:`torch.nn.GRU`, ``[length, n, input_size]``, with weights in integers."""

    _step, _FLOAT_MODULE = staticmethod(_gru), nn.GRU


class RNNCellBase(nn.Module):
    """What single steps share.

    Args:
        mod: the cell of floating-point numbers.
        qconfig: the configuration.
    """

    _FLOAT_MODULE: ClassVar[type]

    def __init__(self, mod: Answer, qconfig: Answer) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = mod.input_size, mod.hidden_size, mod.bias
        self.nonlinearity: str = getattr(mod, "nonlinearity", "tanh")
        self._packed_weight_ih = _pack(mod.weight_ih, mod.bias_ih, qconfig)
        self._packed_weight_hh = _pack(mod.weight_hh, mod.bias_hh, qconfig)

    def _get_name(self) -> str:
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        return text if self.nonlinearity == "tanh" else f"{text}, nonlinearity={self.nonlinearity}"

    def _products(self, input: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return _multiplied(input, self._packed_weight_ih), _multiplied(h, self._packed_weight_hh)

    def _zeros(self, input: Tensor) -> Tensor:
        return torch.zeros(input.shape[0], self.hidden_size, device=input.device)

    def _save_to_state_dict(self, destination: dict[str, Answer], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            destination[prefix + name] = getattr(self, name).unpack()

    def _load_from_state_dict(self, state_dict: dict[str, Answer], prefix: str, *rest: Answer) -> None:
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, _repacked(state_dict.pop(prefix + name)))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Callable[..., Answer], recurse: bool = True) -> Answer:
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, _moved(getattr(self, name), fn))
        return super()._apply(fn, recurse)

    @classmethod
    def from_float(cls, mod: Answer, use_precomputed_fake_quant: bool = False) -> Answer:
        """Return the cell for one of floating-point numbers.

        Raises:
            AssertionError: the module is no such cell.
        """
        require_type(cls, mod, (cls._FLOAT_MODULE,))
        return cls(mod, mod.qconfig)


class RNNCell(RNNCellBase):
    """:class:`torch.nn.RNNCell`, ``[n, input_size]``, with weights in integers."""

    _FLOAT_MODULE = nn.RNNCell

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state ``[n, hidden_size]``."""
        x, h = self._products(input, self._zeros(input) if hx is None else hx)
        return (x + h).tanh() if self.nonlinearity == "tanh" else (x + h).relu()


class LSTMCell(RNNCellBase):
    """:class:`torch.nn.LSTMCell`, ``[n, input_size]``, with weights in integers."""

    _FLOAT_MODULE = nn.LSTMCell

    def forward(self, input: Tensor, hx: States | None = None) -> States:
        """Return the next states, two of ``[n, hidden_size]``."""
        states = (self._zeros(input), self._zeros(input)) if hx is None else hx
        return _lstm(*self._products(input, states[0]), states)


class GRUCell(RNNCellBase):
    """:class:`torch.nn.GRUCell`, ``[n, input_size]``, with weights in integers."""

    _FLOAT_MODULE = nn.GRUCell

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state ``[n, hidden_size]``."""
        state = self._zeros(input) if hx is None else hx
        return _gru(*self._products(input, state), (state,))[0]
