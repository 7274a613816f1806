"""PyTorch's database of modules, exported: the same operations as PyTorch's own export, and the same values, in ONNX too."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path

import pytest
import torch as oracle
import webgpu_torch as torch
from webgpu_torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).parents[1] / "nn"))
from module_database import TABLE, Arguments, samples

# What modules warn of is not asked about.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
#: modules whose graph has other operations: those that PyTorch writes in Python around others, or this library in one piece
WRITTEN_OTHERWISE = (
    "AdaptiveMaxPool", "L1Loss", "SmoothL1Loss", "MSELoss", "HuberLoss", "LinearCrossEntropyLoss", "LPPool", "LocalResponseNorm",
    "Transformer", "MultiheadAttention",
)  # fmt: skip
#: modules that PyTorch does not export: sizes, or averages, of values not known yet
NOT_EXPORTED = ("Lazy", "FractionalMaxPool")
NAMES = [name for name in sorted(TABLE) if not any(each in name for each in NOT_EXPORTED)]


def _targets(program):
    found = [str(each.target) for each in program.graph.nodes if each.op == "call_function"]
    return [each for each in found if "getitem" not in each]


def _alike(found, expected, atol=1e-5):
    found, expected = tree_leaves(found), tree_leaves(expected)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        if isinstance(theirs, torch.Tensor):
            assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-4, atol=atol, equal_nan=True)


def _modules(name, training):
    info, translate = TABLE[name], Arguments("cpu")
    for sample in samples(name, training)[:2]:
        made, given = sample.constructor_input, sample.forward_input
        module = getattr(torch.nn, info.module_cls.__name__)(*translate(made.args), **translate(made.kwargs)).train(
            training
        )
        reference = info.module_cls(*made.args, **made.kwargs).train(training)
        yield module, translate(given.args), translate(given.kwargs), reference, given


@pytest.mark.parametrize("name", NAMES)
def test_operations_and_values(name):
    for module, args, kwargs, reference, given in _modules(name, True):
        theirs = None
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            theirs = oracle.export.export(reference, given.args, given.kwargs)
        if theirs is None:
            continue
        program = torch.export.export(module, args, kwargs)
        if not any(each in name for each in WRITTEN_OTHERWISE):
            assert _targets(program) == _targets(theirs)
        torch.manual_seed(0)
        found = program.module()(*args, **kwargs)
        torch.manual_seed(0)
        _alike(found, module(*args, **kwargs))


#: modules, or forms of them, that have no counterpart in ONNX
REFUSED = ("LPPool", "LocalResponseNorm", "AdaptiveMaxPool", "MaxPool", "AdaptiveAvgPool3d", "LSTM", "Loss")


@pytest.mark.parametrize("name", NAMES)
def test_values_in_onnx(name):
    for module, args, kwargs, _, _ in _modules(name, False):
        try:
            program = torch.onnx.export(module, args, kwargs=kwargs)
        except torch.onnx.UnsupportedOperatorError:
            assert any(each in name for each in REFUSED)
            continue
        found = program(*args, **kwargs)
        expected = [each.detach() for each in tree_leaves(module(*args, **kwargs)) if isinstance(each, torch.Tensor)]
        _alike(found, expected, 1e-4)
