"""Spectral norms by a hook, fused layers, stateless calls, gradients of convolutions, and where modules are found."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest
import torch
import webgpu_torch as facade
import webgpu_torch_core as ours
import webgpu_torch_nn as nn
from nn_oracle import close, copy_weights, to_ours

LAYERS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda t: t.nn.Linear(3, 4), (2, 3)),
    "conv": (lambda t: t.nn.Conv2d(3, 4, 2), (2, 3, 5, 4)),
    "transposed": (lambda t: t.nn.ConvTranspose1d(3, 4, 2), (2, 3, 5)),
}


def same_state(mine: Any, theirs: Any) -> None:
    expected, found = theirs.state_dict(), mine.state_dict()
    assert list(found) == list(expected)
    for key, value in expected.items():
        close(found[key], value, 1e-5, 1e-5)


def spectral(name: str, device: str, **options: Any) -> tuple[Any, Any]:
    pair = []
    for library in (torch, facade):
        library.manual_seed(5)
        pair.append(library.nn.utils.spectral_norm(LAYERS[name][0](library), **options))
    same_state(pair[1], pair[0])
    return pair[0], pair[1].to(device)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", [{}, {"n_power_iterations": 3, "eps": 1e-6}, {"dim": 1}], ids=str)
def test_spectral_norm(name: str, options: dict[str, Any], device: str) -> None:
    theirs, mine = spectral(name, device, **options)
    for training in (True, True, False):
        x = torch.randn(LAYERS[name][1], requires_grad=True)
        y = to_ours(x, device).requires_grad_()
        theirs.train(training)
        mine.train(training)
        theirs.zero_grad()
        mine.zero_grad()
        left, right = mine(y), theirs(x)
        close(left, right, 1e-4, 1e-5)
        (left * left).sum().backward()
        (right * right).sum().backward()
        assert x.grad is not None
        close(y.grad, x.grad, 1e-3, 1e-4)
        close(mine.weight_orig.grad, theirs.weight_orig.grad, 1e-3, 1e-4)
        same_state(mine, theirs)
    other = facade.nn.utils.spectral_norm(LAYERS[name][0](facade), **options)
    other.load_state_dict(mine.state_dict())
    assert other.state_dict()._metadata == theirs.state_dict()._metadata
    nn.utils.remove_spectral_norm(mine)
    torch.nn.utils.remove_spectral_norm(theirs)
    same_state(mine, theirs)
    assert not (mine._forward_pre_hooks or mine._state_dict_hooks or mine._load_state_dict_pre_hooks)
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in"):
        nn.utils.remove_spectral_norm(mine)


def test_spectral_norm_of_older_files() -> None:
    theirs, mine = spectral("linear", "cpu")
    state = dict(theirs.state_dict())
    state["weight"] = theirs.weight_orig.detach() / 1.7
    del state["weight_v"]
    old = {key: to_ours(value) for key, value in state.items()}
    theirs.load_state_dict(state)
    mine.load_state_dict(old)
    same_state(mine, theirs)
    with pytest.raises(RuntimeError, match="Missing key"):
        mine.load_state_dict({"weight_orig": old["weight_orig"], "bias": old["bias"]})


def test_spectral_norm_refusals() -> None:
    layer = nn.utils.spectral_norm(nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter weight"):
        nn.utils.spectral_norm(layer)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        nn.utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)
    with pytest.raises(ValueError, match="cannot be applied as parameter `bias` is None"):
        nn.utils.spectral_norm(nn.Linear(2, 2, bias=False), "bias")
    with pytest.raises(ValueError, match="can't have uninitialized parameters"):
        nn.utils.spectral_norm(nn.LazyLinear(2))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ["linear", "conv", "transposed"])
def test_fused_normalisation(name: str, bias: bool, device: str) -> None:
    torch.manual_seed(1)
    kinds = {
        "linear": (lambda t: t.nn.Linear(3, 4, bias=bias), lambda t: t.nn.BatchNorm1d(4), (5, 3)),
        "conv": (lambda t: t.nn.Conv2d(3, 4, 2, bias=bias), lambda t: t.nn.BatchNorm2d(4), (2, 3, 5, 5)),
        "transposed": (
            lambda t: t.nn.ConvTranspose2d(3, 4, 2, bias=bias),
            lambda t: t.nn.BatchNorm2d(4, eps=0.1),
            (2, 3, 5, 5),
        ),
    }
    make, make_norm, shape = kinds[name]
    theirs, their_norm, mine, my_norm = make(torch), make_norm(torch), make(facade), make_norm(facade)
    for _ in range(2):
        their_norm(theirs(torch.randn(shape)))
    with torch.no_grad():
        their_norm.weight.uniform_(-2, 2)
        their_norm.bias.uniform_(-2, 2)
    copy_weights(theirs, mine)
    copy_weights(their_norm, my_norm)
    for each in (theirs, their_norm, mine.to(device), my_norm.to(device)):
        each.eval()
    fuse = "fuse_linear_bn_eval" if name == "linear" else "fuse_conv_bn_eval"
    given = () if name != "transposed" else (True,)
    expected = getattr(torch.nn.utils, fuse)(theirs, their_norm, *given)
    fused = getattr(nn.utils, fuse)(mine, my_norm, *given)
    same_state(fused, expected)
    assert [each.requires_grad for each in fused.parameters()] == [each.requires_grad for each in expected.parameters()]
    x = to_ours(torch.randn(shape), device)
    close(fused(x), torch.from_numpy(my_norm(mine(x)).detach().cpu().numpy()), 1e-4, 1e-5)
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        getattr(nn.utils, fuse)(mine.train(), my_norm)


def test_fused_normalisation_needs_statistics() -> None:
    with pytest.raises(AssertionError, match="must not be None"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1).eval(), nn.BatchNorm1d(2, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match=r"got linear.out_features=2 and bn.num_features=3"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(1, 2).eval(), nn.BatchNorm1d(3).eval())


def test_channels_last_weights() -> None:
    for rank, form in ((2, "channels_last"), (3, "channels_last_3d")):
        pair = []
        for library in (torch, facade):
            layers = [
                getattr(library.nn, f"{kind}{each}d")(2, 3, 2) for kind in ("Conv", "ConvTranspose") for each in (2, 3)
            ]
            convert = getattr(library.nn.utils, f"convert_conv{rank}d_weight_memory_format")
            assert convert(library.nn.Sequential(*layers), getattr(library, form))[0] is layers[0]
            pair.append([tuple(each.weight.stride()) for each in layers])
        assert pair[0] == pair[1]


class Tied:
    """Makes the same module under either library: a weight with two names, a buffer that counts calls."""

    def __new__(cls, library: Any) -> Any:
        class Net(library.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first = library.nn.Linear(2, 2, bias=False)
                self.second = library.nn.Linear(2, 2, bias=False)
                self.second.weight = self.first.weight
                self.register_buffer("calls", library.zeros(()))

            def forward(self, x: Any, scale: float = 1.0) -> Any:
                self.calls = self.calls + 1
                return self.second(self.first(x)) * scale

        return Net()


@pytest.mark.filterwarnings("ignore:.*stateless:FutureWarning")
@pytest.mark.parametrize("tied", [True, False])
def test_functional_call(tied: bool) -> None:
    torch.manual_seed(2)
    theirs, mine = Tied(torch), Tied(facade)
    copy_weights(theirs, mine)
    weight, x = torch.randn(2, 2), torch.randn(3, 2)
    given, my_given = {"first.weight": weight, "calls": torch.ones(())}, {"first.weight": to_ours(weight)}
    my_given["calls"] = ours.ones(())
    before = mine.first.weight
    for module, values, inputs, library in ((theirs, given, x, torch), (mine, my_given, to_ours(x), facade)):
        call = library.nn.utils.stateless.functional_call
        result = call(module, values, inputs, {"scale": 2.0}, tie_weights=tied)
        if library is torch:
            expected = result
        else:
            close(result, expected, 1e-5, 1e-5)
    assert float(my_given["calls"]) == float(given["calls"]) == 2
    assert mine.first.weight is before and mine.second.weight is before and mine.calls.item() == 0
    slope = ours.ones(2, 2, requires_grad=True)
    facade.nn.utils.stateless.functional_call(mine, {"first.weight": slope}, (ours.ones(1, 2),)).sum().backward()
    assert slope.grad is not None and mine.first.weight.grad is None


@pytest.mark.filterwarnings("ignore:.*stateless:FutureWarning")
def test_functional_call_refusals() -> None:
    for library in (torch, facade):
        module, call = Tied(library), library.nn.utils.stateless.functional_call
        x, values = library.ones(1, 2), [library.ones(2, 2), library.zeros(2, 2)]
        with pytest.raises(ValueError, match="got multiple values for keys"):
            call(module, {"first.weight": values[0], "second.weight": values[1]}, x)
        with pytest.raises(RuntimeError, match=r"Unexpected key\(s\): 'third'"):
            call(module, {"third": values[0]}, x, strict=True)
        with pytest.raises(RuntimeError, match=r"Missing key\(s\): 'calls'"):
            call(module, {"first.weight": values[0]}, x, strict=True)
        with pytest.raises(AttributeError):
            call(module, {"third.weight": values[0]}, x)
        with pytest.raises(TypeError, match="is not an instance of torch.Tensor"):
            call(module, {"first.weight": 3}, x)
    with pytest.warns(FutureWarning, match=r"use `torch.func.functional_call` instead"):
        facade.nn.utils.stateless.functional_call(Tied(facade), {}, ours.ones(1, 2))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_convolutions(rank: int, device: str) -> None:
    torch.manual_seed(3)
    x, weight = torch.randn(2, 4, *(6, 5, 4)[:rank]), torch.randn(6, 2, *(3, 2, 2)[:rank])
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    slope = torch.randn_like(getattr(torch.nn.functional, f"conv{rank}d")(x, weight, **options))
    moved = [to_ours(each, device) for each in (x, weight, slope)]
    theirs, mine = importlib.import_module("torch.nn.grad"), facade.nn.grad
    close(
        getattr(mine, f"conv{rank}d_input")(x.shape, moved[1], moved[2], **options),
        getattr(theirs, f"conv{rank}d_input")(x.shape, weight, slope, **options), 1e-4, 1e-5,
    )  # fmt: skip
    close(
        getattr(mine, f"conv{rank}d_weight")(moved[0], weight.shape, moved[2], **options),
        getattr(theirs, f"conv{rank}d_weight")(x, weight.shape, slope, **options), 1e-4, 1e-5,
    )  # fmt: skip


def test_convolution_with_time_first(device: str) -> None:
    x, weight, bias = torch.randn(7, 2, 3), torch.randn(3, 3, 4), torch.randn(4)
    given = [to_ours(each, device) for each in (x, weight, bias)]
    theirs: Any = torch.nn.functional.conv_tbc
    mine: Any = facade.nn.functional.conv_tbc
    close(mine(*given, 1), theirs(x, weight, bias, 1), 1e-4, 1e-5)
    with pytest.raises(RuntimeError, match="Input must have 3 dims"):
        facade.nn.functional.conv_tbc(given[0][0], *given[1:])


def test_older_names() -> None:
    parameter = ours.ones(2, requires_grad=True)
    parameter.grad = ours.full((2,), 3.0)
    with pytest.warns(FutureWarning, match="deprecated in favor of `torch.nn.utils.clip_grad_norm_`"):
        nn.utils.clip_grad_norm([parameter], 1.0)
    assert parameter.grad.norm().item() == pytest.approx(1.0)
    with pytest.warns(FutureWarning, match="`nn.Container` is deprecated"):
        assert list(nn.Container(a=nn.Tanh())._modules) == ["a"]
    net = nn.DataParallel(nn.Linear(2, 3))
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(ours.ones(1, 2)).tolist() == net.module(ours.ones(1, 2)).tolist()
    assert nn.parallel.data_parallel(net, ours.ones(1, 2)).shape == (1, 3)
    state = net.state_dict()
    importlib.import_module("webgpu_torch.nn.modules.utils").consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"]
    assert nn.Linear(2, 3).load_state_dict(state).missing_keys == []


def test_factory_arguments() -> None:
    for library in (torch, facade):
        assert library.nn.factory_kwargs(None) == {}
        assert library.nn.factory_kwargs({"device": 1, "factory_kwargs": {"dtype": 2}}) == {"device": 1, "dtype": 2}
        with pytest.raises(TypeError, match="unexpected kwargs {'size'}"):
            library.nn.factory_kwargs({"size": 1})
        with pytest.raises(TypeError, match="dtype specified twice"):
            library.nn.factory_kwargs({"dtype": 1, "factory_kwargs": {"dtype": 2}})


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("nn.init", ("xavier_uniform_", "_calculate_fan_in_and_fan_out")),
        ("nn.parameter", ("Parameter", "UninitializedParameter")),
        ("nn.common_types", ("_size_2_t",)),
        ("nn.modules.batchnorm", ("_BatchNorm", "LazyBatchNorm2d")),
        ("nn.modules.conv", ("_ConvNd", "ConvTranspose2d", "LazyConv1d")),
        ("nn.modules.loss", ("_Loss", "_WeightedLoss", "TripletMarginLoss", "MultiLabelMarginLoss")),
        ("nn.utils", ("weight_norm", "spectral_norm")),
        ("nn.utils.rnn", ("pad_sequence", "PackedSequence")),
        ("nn.utils.parametrizations", ("weight_norm", "orthogonal")),
        ("nn.utils.clip_grad", ("clip_grad_norm_",)),
        ("nn.utils.prune", ("l1_unstructured",)),
        ("optim.lr_scheduler", ("LambdaLR", "LRScheduler")),
        ("optim.optimizer", ("Optimizer", "register_optimizer_step_pre_hook")),
        ("optim.adamw", ("AdamW",)),
        ("optim.swa_utils", ("AveragedModel",)),
    ],
)
def test_modules_are_found(path: str, names: tuple[str, ...]) -> None:
    module, theirs = importlib.import_module(f"webgpu_torch.{path}"), importlib.import_module(f"torch.{path}")
    found: Any = facade
    for part in path.split("."):
        found = getattr(found, part, module)
    assert callable(found) or found is module
    for name in names:
        assert hasattr(theirs, name) and hasattr(module, name), name


def test_public_functions_travel_by_name() -> None:
    for name in ("gelu", "linear", "mse_loss", "pad", "logsigmoid", "scaled_dot_product_attention", "relu", "conv2d"):
        function = getattr(facade.nn.functional, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function


def test_calls_with_several_dictionaries(device: str) -> None:
    torch.manual_seed(7)
    x, weight, bias = torch.randn(3, 2), torch.randn(2, 2), torch.randn(2)
    expected = torch.func.functional_call(torch.nn.Linear(2, 2), ({"weight": weight}, {"bias": bias}), x)
    given = ({"weight": to_ours(weight, device)}, {"bias": to_ours(bias, device)})
    close(facade.func.functional_call(nn.Linear(2, 2), given, to_ours(x, device)), expected)
    for library in (torch, facade):
        call, layer = library.func.functional_call, library.nn.Linear(2, 2)
        one = {"bias": library.ones(2)}
        with pytest.raises(ValueError, match=r"\['bias'\] appeared in multiple dictionaries"):
            call(layer, (one, one), library.ones(2))
        with pytest.raises(ValueError, match="Expected all elements of parameter_and_buffer_dicts to be dictionaries"):
            call(layer, [one, 3], library.ones(2))
        with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
            call(layer, 3, library.ones(2))


def test_stacked_models() -> None:
    stacked = []
    for library in (torch, facade):
        library.manual_seed(1)
        models = [library.nn.Sequential(library.nn.Linear(2, 3), library.nn.BatchNorm1d(3)) for _ in range(3)]
        models[2](library.ones(2, 2))
        stacked.append(library.func.stack_module_state(models))
        with pytest.raises(RuntimeError, match="same training/eval mode"):
            library.func.stack_module_state([models[0], models[1].eval()])
        with pytest.raises(RuntimeError, match="same class"):
            library.func.stack_module_state([models[0], models[2][0]])
        with pytest.raises(RuntimeError, match="at least one model"):
            library.func.stack_module_state([])
        models[0][0].bias.requires_grad_(False)
        with pytest.raises(RuntimeError, match=r"Expected 0.bias from each model to have the same .requires_grad"):
            library.func.stack_module_state([models[0], models[2]])
        library.func.replace_all_batch_norm_modules_(models[2])
        assert models[2][1].running_mean is None and not models[2][1].track_running_stats
    for mine, theirs in zip(stacked[1], stacked[0], strict=True):
        assert list(mine) == list(theirs)
        for name, value in theirs.items():
            close(mine[name], value)
            assert mine[name].requires_grad == value.requires_grad and mine[name].is_leaf
