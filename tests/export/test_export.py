"""Exported programs: their graphs are PyTorch's, their values those of the module, their files readable on both sides."""

from __future__ import annotations

import copy
import gc
import io
import warnings

import pytest
import torch as oracle
import webgpu_torch as torch
import webgpu_torch.export as export
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch import nn
from webgpu_torch.nn import functional
from webgpu_torch.utils._pytree import tree_leaves
from webgpu_torch_tools.export.sizes import SpecializedError
from webgpu_torch_tools.export.tracing import DataDependentError, UnseenError

#: layers of [n, 4, 6], made alike by either library
LAYERS = {
    "linear": lambda nn: nn.Linear(6, 6), "conv": lambda nn: nn.Conv1d(4, 4, 3, padding=1), "norm": lambda nn: nn.LayerNorm(6),
    "batch": lambda nn: nn.BatchNorm1d(4), "group": lambda nn: nn.GroupNorm(2, 4), "instance": lambda nn: nn.InstanceNorm1d(4),
    "gelu": lambda nn: nn.GELU(), "tanh": lambda nn: nn.Tanh(), "relu": lambda nn: nn.ReLU(inplace=True),
    "softmax": lambda nn: nn.Softmax(-1), "dropout": lambda nn: nn.Dropout(0.0), "silu": lambda nn: nn.SiLU(),
    "pool": lambda nn: nn.MaxPool1d(3, 1, 1), "average": lambda nn: nn.AvgPool1d(3, 1, 1), "leaky": lambda nn: nn.LeakyReLU(0.1),
    "hard": lambda nn: nn.Hardtanh(-1, 1), "elu": lambda nn: nn.ELU(), "bilinear": lambda nn: nn.Identity(),
}  # fmt: skip


def _pair(names):
    theirs = oracle.nn.Sequential(*(LAYERS[each](oracle.nn) for each in names))
    ours = nn.Sequential(*(LAYERS[each](nn) for each in names))
    ours.load_state_dict({name: torch.from_numpy(each.numpy()) for name, each in theirs.state_dict().items()})
    return theirs, ours


def _targets(program):
    return [str(each.target) for each in program.graph.nodes if each.op == "call_function"]


def _near(first, second):
    first, second = tree_leaves(first), tree_leaves(second)
    assert len(first) == len(second)
    for ours, theirs in zip(first, second):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@given(names=st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4), training=st.booleans())
@settings(max_examples=3, deadline=None)
def test_layers(names, training):
    theirs, ours = (each.train(training) for each in _pair(names))
    x = oracle.randn(3, 4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = oracle.export.export(theirs, (x,))
    program = export.export(ours, (torch.from_numpy(x.numpy()),))
    assert _targets(program) == _targets(expected)
    signature, known = program.graph_signature, expected.graph_signature
    assert [str(each) for each in signature.input_specs] == [str(each) for each in known.input_specs]
    fresh, given = copy.deepcopy(ours), torch.from_numpy(x.numpy())
    _near(program.module()(given.clone()), fresh(given.clone()))
    # The counts and averages of the exported module are its own.
    _near(list(program.module().state_dict().values()), list(fresh.state_dict().values()))


class Mixed(nn.Module):
    """Structures, constants, branches by shape and subscripts."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)
        self.register_buffer("kept", torch.ones(8))
        self.register_buffer("unsaved", torch.full((8,), 2.0), persistent=False)
        self.plain = torch.arange(8.0)

    def forward(self, x, flag=True, *, more=None):
        count = x.shape[0]
        hidden = torch.relu(self.layer(x)) * self.kept + self.plain - self.unsaved
        if flag:
            hidden = hidden + torch.tensor(0.5)
        hidden = hidden.view(count, 2, -1)[:, 0, 1:]
        first, second = hidden.chunk(2, 1)
        joined = torch.cat([first, second * more["scale"]], 1)
        joined[:, 0] = 0
        return {"rows": joined.softmax(-1), "several": (x.new_zeros(count * 2, 3).sum(), joined.max(1).values, count)}


@given(count=st.integers(2, 9), other=st.integers(2, 9))
@settings(max_examples=2, deadline=None)
def test_changing_sizes(count, other):
    module, more = Mixed(), {"scale": torch.tensor([3.0])}
    batch = export.Dim("batch", min=1, max=64)
    program = export.export(module, (torch.randn(count, 4),), {"more": more}, dynamic_shapes={"x": {0: batch}})
    x = torch.randn(other, 4)
    found, expected = program.module()(x, more=more), module(x, more=more)
    assert found["several"][2] == other == expected["several"][2]
    _near(found["rows"], expected["rows"])
    file = io.BytesIO()
    export.save(program, file)
    _near(export.load(file).module()(x, more=more)["rows"], expected["rows"])
    file.seek(0)
    theirs = oracle.export.load(file).module()(oracle.from_numpy(x.numpy()), more={"scale": oracle.tensor([3.0])})
    _near(torch.from_numpy(theirs["rows"].detach().numpy()), expected["rows"])


class Holding(nn.Module):
    """Adds a tensor that is no buffer, or what something other than a call has made of it."""

    def __init__(self, unseen):
        super().__init__()
        self.plain, self.unseen = [torch.arange(3.0)], unseen

    def forward(self, x):
        other = self.plain[0]
        if self.unseen:
            other = torch.Tensor._from_storage(other._storage, other._layout, other.dtype, other.device)
        return x + other


def test_constants_that_the_collector_leaves_out():
    module = Holding(False)
    gc.collect()
    gc.freeze()
    program = export.export(module, (torch.ones(3),))
    assert [each.shape for each in program.constants.values()] == [(3,)]
    _near(program.module()(torch.ones(3)), torch.arange(1.0, 4.0))
    with pytest.raises(UnseenError, match="computed by something that is no call"):
        export.export(Holding(True), (torch.ones(3),))
    # Nothing is noted any longer.
    assert torch.Tensor._from_storage.__func__.__name__ == "_from_storage"


def test_files_of_pytorch():
    theirs, ours = _pair(["conv", "batch", "gelu", "linear", "norm"])
    x = oracle.randn(2, 4, 6)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle.export.save(oracle.export.export(theirs.eval(), (x,)), file)
    program = export.load(file)
    assert dict(program.module().named_parameters()).keys() == dict(ours.named_parameters()).keys()
    _near(program.module()(torch.from_numpy(x.numpy())), ours.eval()(torch.from_numpy(x.numpy())))


def test_training_an_exported_module():
    module = nn.Linear(3, 2)
    runs = export.export(module, (torch.ones(4, 3),)).module()
    runs(torch.ones(4, 3)).sum().backward()
    assert runs.weight is module.weight and module.weight.grad.tolist() == [[4.0] * 3] * 2


class _Asks(nn.Module):
    def __init__(self, asks):
        super().__init__()
        self.asks = asks

    def forward(self, x):
        return self.asks(x)


REFUSED = {
    "a value": lambda x: x + 1 if x.sum() > 0 else x,
    "an item": lambda x: x * x.max().item(),
    "a mask": lambda x: x[x > 0],
    "positions": lambda x: x.nonzero(),
    "an array": lambda x: torch.from_numpy(x.numpy() + 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_are_refused(name):
    with pytest.raises(DataDependentError):
        export.export(_Asks(REFUSED[name]), (torch.ones(3, 3),))


@pytest.mark.parametrize(
    "asks", [lambda x: x + 1 if x.shape[0] > 4 else x, lambda x: x.view(3, 3).sum(0), lambda x: x + torch.ones(3, 3)]
)
def test_sizes_of_the_example_are_refused(asks):
    with pytest.raises((SpecializedError, RuntimeError)):
        export.export(_Asks(asks), (torch.ones(3, 3),), dynamic_shapes=({0: export.Dim("rows")},))


def test_other_inputs_are_refused():
    program = export.export(nn.Linear(3, 2), (torch.ones(4, 3),))
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(torch.ones(4, 3))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(5, 3))
    with pytest.raises(TypeError, match="input tree spec"):
        program.module()(torch.ones(4, 3), torch.ones(4, 3))
    with pytest.raises(ValueError, match="nn.Module"):
        export.export(lambda x: x, (torch.ones(1),))


def test_decompositions():
    module = nn.Sequential(nn.Linear(3, 2), nn.Softmax(-1))
    program = export.export(module, (torch.ones(4, 3),))
    simpler = program.run_decompositions()
    assert _targets(simpler) == ["aten.t.default", "aten.addmm.default", "aten._softmax.default"]
    x = torch.randn(4, 3)
    _near(simpler.module()(x), module(x))
    own = program.run_decompositions(
        {torch.ops.aten.softmax.int: lambda x, dim: torch.exp(x) / torch.exp(x).sum(dim, True)}
    )
    assert "aten.exp.default" in _targets(own)
    _near(own.module()(x), module(x))


def test_functions_see_that_they_are_exported():
    seen = []
    export.export(
        _Asks(lambda x: (seen.append(torch.compiler.is_exporting()), functional.relu(x))[1]), (torch.ones(2),)
    )
    assert seen == [True] and not torch.compiler.is_exporting()
