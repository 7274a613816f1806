"""Recurrent networks and their functions against PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as facade
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from functional_oracle import tensor
from nn_oracle import close, to_ours, to_torch
from paired_modules import Pair, moved, seeded
from torch.nn.utils.rnn import pack_padded_sequence

MODULES = ("RNN", "LSTM", "GRU")
FUNCTIONS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def states(name: str, layers: int, count: int | None, hidden: int, projection: int = 0) -> Any:
    """Return first states: [layers, count, hidden], or without count; a pair for an LSTM."""
    middle = () if count is None else (count,)
    first = tensor(layers, *middle, projection or hidden)
    return (first, tensor(layers, *middle, hidden, seed=1)) if name == "LSTM" else first


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 2, "bidirectional": True},
    "batch first without bias": {"batch_first": True, "bias": False, "num_layers": 2},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("name", MODULES)
def test_networks(name: str, options: dict[str, Any], device: str) -> None:
    pair = Pair(name, device, 3, 5, **options)
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    shape = (2, 4, 3) if options.get("batch_first") else (4, 2, 3)
    pair.check(tensor(*shape), states(name, layers, 2, 5))
    if device == "cpu":
        pair.check(tensor(*shape))


def test_relu_network(device: str) -> None:
    Pair("RNN", device, 3, 4, nonlinearity="relu").check(tensor(3, 2, 3))


@pytest.mark.slow_on("webgpu-False")
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("bias", [True, False])
def test_projections(bias: bool, device: str) -> None:
    directions = 2 if device == "cpu" else 1
    pair = Pair("LSTM", device, 3, 5, num_layers=2, bidirectional=directions == 2, proj_size=2, bias=bias)
    pair.check(tensor(3, 2, 3), states("LSTM", 2 * directions, 2, 5, 2))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_without_batch(name: str, batch_first: bool, device: str) -> None:
    pair = Pair(name, device, 3, 4, batch_first=batch_first)
    pair.check(tensor(3, 3), states(name, 1, None, 4))
    if device == "cpu":
        pair.check(tensor(3, 3))


@pytest.mark.slow_on("webgpu-LSTM-False")
@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("name", MODULES)
def test_sequences_of_different_lengths(name: str, enforce_sorted: bool, device: str) -> None:
    lengths = [4, 2, 1] if enforce_sorted else [2, 4, 1]
    packed = pack_padded_sequence(tensor(4, 3, 3), lengths, enforce_sorted=enforce_sorted)
    packed = packed._replace(data=packed.data.detach().requires_grad_())
    # Every kernel takes a software adapter a while to compile: there, one layer.
    layers = 2 if device == "cpu" else 1
    pair = Pair(name, device, 3, 4, num_layers=layers, bidirectional=device == "cpu" or name == "LSTM")
    output, _ = pair.check(packed, states(name, layers * (2 if pair.theirs.bidirectional else 1), 3, 4))
    assert isinstance(output, nn.utils.rnn.PackedSequence)
    if device == "cpu":
        pair.check(packed)


def test_packed_sequences_of_one_length(device: str) -> None:
    Pair("GRU", device, 3, 4).check(pack_padded_sequence(tensor(3, 2, 3).detach(), [3, 3]))


def test_no_sequences() -> None:
    Pair("LSTM", "cpu", 3, 4).check(torch.zeros(3, 0, 3))


@pytest.mark.parametrize("packed", [False, True])
def test_dropout_between_layers_draws_as_pytorch(packed: bool) -> None:
    pair = Pair("LSTM", "cpu", 3, 8, num_layers=3, dropout=0.5, bidirectional=True)
    input: Any = tensor(4, 3, 3).detach()
    seeded(9)
    pair.check(pack_padded_sequence(input, [4, 3, 1]) if packed else input)
    pair.eval().check(input)


@pytest.mark.parametrize(("name", "gates"), [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
@pytest.mark.parametrize("packed", [False, True])
def test_functions_and_second_gradients(name: str, gates: int, packed: bool) -> None:
    weights = [tensor(gates * 4, size, seed=each) for each, size in enumerate((3, 4))]
    weights += [tensor(gates * 4, seed=each) for each in (2, 3)]
    hidden: Any = tensor(1, 2, 4)
    hidden = (hidden, tensor(1, 2, 4, seed=1)) if name == "lstm" else hidden
    options = (weights, True, 1, 0.0, True, False)
    if packed:
        args: Any = (tensor(5, 3), torch.tensor([2, 2, 1]), hidden, *options)
    else:
        args = (tensor(3, 2, 3), hidden, *options, False)

    def gradients(library: Any, function: Callable[..., Any], given: Any) -> list[Any]:
        results = function(*given)
        leaves = [given[0], *(given[3] if packed else given[2])]
        first = library.autograd.grad(sum((each * each).sum() for each in results), leaves, create_graph=True)
        second = library.autograd.grad(sum((each * each).sum() for each in first), leaves)
        return [*results, *first, *second]

    expected = gradients(torch, getattr(torch, name), args)
    actual = gradients(ours, getattr(facade, name), moved(args, "cpu"))
    for have, want in zip(actual, expected, strict=True):
        close(have, want, 1e-3, 1e-3)


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(name: str, bias: bool, device: str) -> None:
    pair = Pair(name, device, 3, 4, bias=bias)
    hidden = (tensor(2, 4), tensor(2, 4, seed=1)) if name == "LSTMCell" else tensor(2, 4)
    pair.check(tensor(2, 3))
    pair.check(tensor(2, 3), hidden)
    alone = (tensor(4), tensor(4, seed=1)) if name == "LSTMCell" else tensor(4)
    pair.check(tensor(3), alone)


def test_relu_cell(device: str) -> None:
    Pair("RNNCell", device, 3, 4, nonlinearity="relu").check(tensor(2, 3))


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types(kind: torch.dtype) -> None:
    theirs = torch.nn.LSTM(3, 4, bidirectional=True).to(kind)
    module = nn.LSTM(3, 4, bidirectional=True).to(getattr(ours, str(kind).removeprefix("torch.")))
    module.load_state_dict({key: to_ours(value.float()) for key, value in theirs.state_dict().items()})
    input = torch.rand(3, 2, 3)
    output, (hidden, cell) = module(to_ours(input).to(module.weight_ih_l0.dtype))
    limit = {torch.float64: 1e-10, torch.float16: 2e-3, torch.bfloat16: 2e-2}[kind]
    expected, (last, last_cell) = theirs(input.to(kind))
    for have, want in ((output, expected), (hidden, last), (cell, last_cell)):
        assert have.dtype is module.weight_ih_l0.dtype
        close(have.double(), want.double(), limit, limit)


def test_steps_share_their_kernels(device: str) -> None:
    """Twice the steps take twice the kernels at most, and hardly more different ones; a second pass compiles nothing."""

    def run(length: int) -> tuple[int, int]:
        module, input = nn.LSTM(4, 8).to(device), ours.ones(length, 2, 4, device=device)
        engine: Any = input._engine
        found = []
        for _ in range(3):
            before = dict(engine.statistics)
            module.zero_grad()
            module(input)[0].sum().backward()
            [each.grad.tolist() for each in module.parameters()]
            found.append({key: value - before[key] for key, value in engine.statistics.items()})
        assert found[2]["scheduled"] == 0
        return found[2]["kernels"], found[2]["recorded"]

    (short, few), (long, many) = run(6), run(12)
    assert long <= 2 * short
    assert many <= 2 * few
    assert (long - short) / 6 <= 6, "kernels per step, forward and backward"


@pytest.mark.parametrize("name", MODULES)
def test_without_gradients_each_call_is_what_the_first_is(name: str) -> None:
    """Calls are remembered by their lengths, not by their numbers."""
    pair = Pair(name, "cpu", 3, 5, num_layers=2, bidirectional=True)
    with ours.no_grad(), torch.no_grad():
        for seed, length in enumerate((4, 4, 2, 4, 2, 1)):
            input = tensor(length, 2, 3, seed=seed)
            close(pair.ours(to_ours(input))[0], pair.theirs(input)[0])


def test_attributes_and_weights() -> None:
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    theirs = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2)
    shapes = [[tuple(each.shape) for each in group] for group in module.all_weights]
    assert shapes == [[tuple(each.shape) for each in group] for group in theirs.all_weights]
    assert module.weight_hr_l1_reverse is module.all_weights[3][4]
    assert module.flatten_parameters() is None
    assert (module.mode, module.proj_size, module.dropout) == (theirs.mode, theirs.proj_size, theirs.dropout)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        again.weight_ih_l0.data.zero_()
        assert again.all_weights[0][0] is again.weight_ih_l0
        assert module.weight_ih_l0.abs().sum() > 0
    state = {key: to_torch(value) for key, value in module.state_dict().items()}
    assert str(theirs.load_state_dict(state)) == "<All keys matched successfully>"


def test_replaced_weights_count() -> None:
    module, input = nn.GRU(2, 3), ours.ones(2, 1, 2)
    module.weight_ih_l0 = nn.Parameter(ours.zeros(9, 2))
    module.bias_ih_l0 = nn.Parameter(ours.zeros(9))
    first = module(input)[0]
    assert module(input * 5)[0].tolist() == first.tolist()


CONSTRUCTIONS: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda nn: nn.LSTM(2, 3, dropout=1.5),
    "dropout is a bool": lambda nn: nn.LSTM(2, 3, dropout=True),
    "bias": lambda nn: nn.GRU(2, 3, bias=1),
    "batch_first": lambda nn: nn.GRU(2, 3, batch_first=1),
    "input_size": lambda nn: nn.GRU(0, 3),
    "input_size type": lambda nn: nn.GRU(2.0, 3),
    "hidden_size": lambda nn: nn.GRU(2, -3),
    "num_layers": lambda nn: nn.GRU(2, 3, num_layers=0),
    "proj_size": lambda nn: nn.LSTM(2, 3, proj_size=3),
    "negative proj_size": lambda nn: nn.LSTM(2, 3, proj_size=-1),
    "proj_size of GRU": lambda nn: nn.GRU(2, 3, proj_size=1),
    "proj_size of RNN": lambda nn: nn.RNN(2, 3, proj_size=1),
    "nonlinearity": lambda nn: nn.RNN(2, 3, nonlinearity="gelu"),
    "mode": lambda nn: nn.RNNBase("X", 2, 3),
    "cell's nonlinearity": lambda nn: nn.RNNCell(2, 3, nonlinearity="gelu")(nn.Parameter(nn.RNNCell(2, 2).weight_ih)),
}


@pytest.mark.parametrize("build", CONSTRUCTIONS.values(), ids=CONSTRUCTIONS)
def test_messages_of_constructors(build: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        build(torch.nn)
    with pytest.raises(type(expected.value)) as actual:
        build(nn)
    assert str(actual.value) == str(expected.value)


def test_dropout_of_one_layer_warns() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last recurrent layer"):
        nn.LSTM(2, 3, dropout=0.5)


CALLS: dict[str, Callable[[Any], Any]] = {
    "rank of input": lambda t: t.nn.LSTM(2, 3)(t.zeros(2)),
    "rank of a GRU's input": lambda t: t.nn.GRU(2, 3)(t.zeros(2, 2, 2, 2)),
    "rank of an RNN's input": lambda t: t.nn.RNN(2, 3)(t.zeros(2)),
    "features": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 1, 5)),
    "type": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 1, 2, dtype=t.float64)),
    "hidden": lambda t: t.nn.GRU(2, 3)(t.zeros(4, 1, 2), t.zeros(1, 2, 3)),
    "hidden[0]": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 1, 2), (t.zeros(1, 2, 3), t.zeros(1, 1, 3))),
    "hidden[1]": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 1, 2), (t.zeros(1, 1, 3), t.zeros(2, 1, 3))),
    "rank of states": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 1, 2), (t.zeros(1, 3), t.zeros(1, 3))),
    "rank of unbatched states": lambda t: t.nn.LSTM(2, 3)(t.zeros(4, 2), (t.zeros(1, 1, 3), t.zeros(1, 1, 3))),
    "rank of a GRU's state": lambda t: t.nn.GRU(2, 3)(t.zeros(4, 1, 2), t.zeros(1, 3)),
    "rank of an unbatched state": lambda t: t.nn.RNN(2, 3)(t.zeros(4, 2), t.zeros(1, 1, 3)),
    "no steps": lambda t: t.nn.GRU(2, 3)(t.zeros(0, 1, 2)),
    "rank of a cell's input": lambda t: t.nn.GRUCell(2, 3)(t.zeros(1, 1, 2)),
    "rank of a cell's state": lambda t: t.nn.RNNCell(2, 3)(t.zeros(1, 2), t.zeros(1, 1, 3)),
    "rank of an LSTM cell's state": lambda t: t.nn.LSTMCell(2, 3)(t.zeros(1, 2), (t.zeros(1, 3), t.zeros(1, 1, 3))),
    "features of a cell": lambda t: t.nn.LSTMCell(2, 3)(t.zeros(1, 4)),
    "state of a cell": lambda t: t.nn.GRUCell(2, 3)(t.zeros(1, 2), t.zeros(1, 4)),
    "batch of a cell": lambda t: t.nn.GRUCell(2, 3)(t.zeros(1, 2), t.zeros(2, 3)),
    "two states": lambda t: t.lstm(t.zeros(1, 1, 2), (t.zeros(1, 1, 3),), [], True, 1, 0.0, False, False, False),
    "two states of a cell": lambda t: t.lstm_cell(t.zeros(1, 2), (t.zeros(1, 3),), t.zeros(12, 2), t.zeros(12, 3)),
    "rows of weight_hh": lambda t: t.gru_cell(t.zeros(1, 2), t.zeros(1, 3), t.zeros(9, 2), t.zeros(8, 3)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_messages_of_calls(call: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        call(torch)
    with pytest.raises(type(expected.value)) as actual:
        call(facade)
    assert str(actual.value).replace("webgpu_torch.", "torch.") == str(expected.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments(name: str) -> None:
    with pytest.raises(TypeError) as expected:
        getattr(torch, name)(torch.zeros(1), 3)
    with pytest.raises(TypeError) as actual:
        getattr(facade, name)(ours.zeros(1), 3)
    assert str(actual.value) == str(expected.value)
