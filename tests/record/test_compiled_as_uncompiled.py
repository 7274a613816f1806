"""A compiled function returns what the uncompiled one would, whatever changes between two calls, or says that it cannot."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import webgpu_torch as torch
from webgpu_torch import nn
from webgpu_torch_nn.modules.module import register_module_forward_hook


@pytest.fixture(params=["cpu", "webgpu"])
def device(request: Any) -> str:
    return request.param


def network(device: str) -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.0), nn.Linear(4, 2)).to(device)


def same(compiled: Any, expected: Any) -> None:
    assert compiled.dtype is expected.dtype
    assert torch.allclose(compiled, expected, atol=1e-5), (compiled, expected)


def replace_data(model: Any) -> None:
    model[0].weight.data = model[0].weight.data * 2


def assign(model: Any) -> None:
    model.load_state_dict(
        {name: each * 1.5 if each.is_floating_point() else each for name, each in model.state_dict().items()},
        assign=True,
    )


def hook(model: Any) -> None:
    model[3].register_forward_hook(lambda module, given, result: result + 1)


def forward_hook_of_all(model: Any) -> None:
    del model
    handle = register_module_forward_hook(
        lambda module, given, result: result * 2 if isinstance(module, nn.Linear) else None
    )
    HANDLES.append(handle)


HANDLES: list[Any] = []


@pytest.fixture(autouse=True)
def _remove_hooks() -> Iterator[None]:
    yield
    while HANDLES:
        HANDLES.pop().remove()


CHANGES: dict[str, Callable[[Any], Any]] = {
    "eval": lambda model: model.eval(),
    "eval of a part": lambda model: model[1].eval(),
    "replaced data": replace_data,
    "assigned state": assign,
    "loaded state": lambda model: model.load_state_dict({k: v * 2 for k, v in model.state_dict().items()}),
    "hook": hook,
    "hook of all modules": forward_hook_of_all,
    "submodule": lambda model: model.__setitem__(3, nn.Linear(4, 2).to(model[0].weight.device)),
    "registry": lambda model: model._modules.__setitem__("3", nn.Linear(4, 2).to(model[0].weight.device)),
    "parameter": lambda model: setattr(model[3], "bias", nn.Parameter(model[3].bias.detach() * 3)),
    "no parameter": lambda model: setattr(model[3], "bias", None),
    "attribute": lambda model: setattr(model[1], "eps", 0.5),
    "momentum": lambda model: setattr(model[1], "momentum", 0.9),
    "written weights": lambda model: model[0].weight.data.mul_(3),
    "half": lambda model: model.to(torch.float16),
    "deleted": lambda model: model.__delitem__(2),
    "forward": lambda model: setattr(model[3], "forward", lambda x: x * 2),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_model(name: str, device: str) -> None:
    model = network(device)
    twin = copy.deepcopy(model)
    compiled = torch.compile(model)
    x = torch.randn(5, 3, device=device)
    with torch.no_grad():
        for _ in range(3):
            same(compiled(x), twin(x))
        torch.manual_seed(3)
        CHANGES[name](model)
        torch.manual_seed(3)
        if name != "hook of all modules":
            CHANGES[name](twin)
        if name == "half":
            x = x.half()
        for _ in range(3):
            same(compiled(x).float(), twin(x).float())
        for ours, theirs in zip(model.buffers(), twin.buffers(), strict=True):
            assert torch.allclose(ours.float(), theirs.float(), atol=1e-3)


def test_a_dropout_whose_probability_changes() -> None:
    layer = nn.Dropout(0.0)
    compiled = torch.compile(lambda x: layer(x))
    x = torch.ones(100)
    assert compiled(x).sum().item() == compiled(x).sum().item() == 100
    layer.p = 1.0
    assert compiled(x).sum().item() == 0


CONTEXTS: dict[str, Callable[[str], Any]] = {
    "autocast": lambda device: torch.autocast(device, torch.bfloat16 if device == "cpu" else torch.float16),
    "no_grad": lambda device: torch.no_grad(),
    "inference": lambda device: torch.inference_mode(),
    "device": lambda device: torch.device(device),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts(name: str, device: str) -> None:
    function = lambda a, b: (a @ b, torch.ones(2))  # noqa: E731
    compiled = torch.compile(function)
    a, b = torch.randn(3, 4, device=device), torch.randn(4, 2, device=device)
    for where in (None, CONTEXTS[name], None, CONTEXTS[name]):
        with nullcontext() if where is None else where(device):
            for _ in range(2):
                for found, expected in zip(compiled(a, b), function(a, b), strict=True):
                    assert found.dtype is expected.dtype and found.device == expected.device
                    assert found.is_inference() == expected.is_inference()
                    assert found.tolist() == expected.tolist()


def test_default_dtype() -> None:
    compiled = torch.compile(lambda: torch.ones(2))
    assert compiled().dtype is compiled().dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled().dtype is compiled().dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_vmap_and_modes() -> None:
    compiled = torch.compile(lambda x: x.sum() * 2)
    x = torch.arange(6.0).reshape(2, 3)
    assert compiled(x[0]).item() == compiled(x[1]).item() - 18 == 6
    assert torch.func.vmap(compiled)(x).tolist() == [6.0, 24.0]


SCALE = 2.0
OPTIONS = {"scale": 1.0, "parts": [1.0]}


class Settings:
    scale = 3.0

    def __init__(self) -> None:
        self.offset = 1.0
        self.uninteresting = 0


def test_variables_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    factor, box, settings = 1.0, [1.0], Settings()

    def helper(x: Any) -> Any:
        return x * SCALE + settings.offset

    def function(x: Any, plus: float = 0.0) -> Any:
        return helper(x) * factor * box[0] * OPTIONS["scale"] * OPTIONS["parts"][0] * settings.scale + plus

    compiled = torch.compile(function)
    x = torch.arange(3.0)

    def check() -> None:
        for _ in range(3):
            settings.uninteresting += 1
            assert compiled(x).tolist() == function(x).tolist()

    check()
    assert compiled.statistics["recorded"] == 1
    factor = 3.0
    check()
    box[0] = 5.0
    check()
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    check()
    monkeypatch.setitem(OPTIONS, "scale", 4.0)
    check()
    OPTIONS["parts"].append(1.0)
    OPTIONS["parts"][0] = 2.0
    check()
    settings.offset = -1.0
    check()
    monkeypatch.setattr(Settings, "scale", 10.0)
    check()
    function.__defaults__ = (2.0,)
    check()
    assert compiled.statistics["fallbacks"] == 0
    assert compiled.statistics["replayed"] >= 2 * compiled.statistics["recorded"] - 2


def test_arguments_that_change() -> None:
    class Options:
        def __init__(self) -> None:
            self.values = {1, 2}

        def __eq__(self, other: object) -> bool:
            return True

    options, numbers = Options(), [1.0, 2.0]

    def function(x: Any, options: Any, numbers: Any) -> Any:
        return x * len(options.values) + sum(numbers)

    compiled = torch.compile(function)
    x = torch.ones(2)
    for _ in range(3):
        for _ in range(2):
            assert compiled(x, options, numbers).tolist() == function(x, options, numbers).tolist()
        options.values.add(len(options.values) + 1)
        numbers[0] += 1


def test_what_cannot_be_looked_into_is_refused_once() -> None:
    def function(x: Any, numbers: Any) -> Any:
        return x + next(numbers)

    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match="list_iterator") as caught:
        numbers = iter([1.0, 2.0, 3.0])
        assert [compiled(torch.zeros(()), numbers).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert len(caught) == 1


def test_python_side_effects_are_not_replayed() -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(1)
        return x * len(calls)

    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match="every call changes what the next one finds"):
        assert [compiled(torch.ones(())).item() for _ in range(5)] == [1, 2, 3, 4, 5]


def test_results_that_need_gradients() -> None:
    model = nn.Linear(3, 1)
    with pytest.warns(UserWarning, match="its results need gradients"):
        compiled = torch.compile(lambda x: model(x))
        for _ in range(3):
            model.zero_grad()
            compiled(torch.ones(2, 3)).sum().backward()
            assert model.weight.grad is not None and model.weight.grad.tolist() == [[2.0] * 3]


def test_gradients_that_are_cleared_outside() -> None:
    model = nn.Linear(3, 1)

    def function(x: Any) -> Any:
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    compiled = torch.compile(function)
    for accumulate in (False, False, True, True, False):
        if not accumulate:
            model.zero_grad()
        before = 0.0 if model.weight.grad is None else model.weight.grad[0, 0].item()
        compiled(torch.ones(2, 3))
        assert model.weight.grad is not None
        assert model.weight.grad.tolist() == [[before + 2.0] * 3]
    assert compiled.statistics["replayed"] >= 2


def test_arguments_that_share_memory() -> None:
    def function(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    compiled = torch.compile(function)
    x, y = torch.zeros(2), torch.zeros(2)
    assert compiled(x, x).tolist() == [2.0, 2.0]
    assert compiled(x, y).tolist() == [0.0, 0.0]
    assert compiled(x, x).tolist() == [6.0, 6.0]
    assert compiled(x, y).tolist() == [0.0, 0.0] and x.tolist() == [4.0, 4.0]


def test_results_that_share_memory() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        return y, y[:1]

    compiled = torch.compile(function)
    for _ in range(3):
        whole, part = compiled(torch.ones(3))
        part.add_(5)
        assert whole.tolist() == [7.0, 2.0, 2.0]


def test_seeds() -> None:
    compiled = torch.compile(lambda: torch.rand(3, device="webgpu"))
    for seed in (1, 2, 1, 2):
        torch.manual_seed(seed)
        found = [compiled().tolist() for _ in range(2)]
        torch.manual_seed(seed)
        assert found == [torch.rand(3, device="webgpu").tolist() for _ in range(2)]
    assert compiled.statistics["recorded"] == 1 and compiled.statistics["replayed"] >= 6


@pytest.mark.parametrize("seed", [0, 5, 2**32 + 7, 2**63 + 2**31])
def test_generators_of_other_seeds(seed: int) -> None:
    own = torch.Generator("webgpu")
    compiled = torch.compile(lambda: torch.rand(3, device="webgpu", generator=own))
    for each in (1, 1, seed, seed):
        own.manual_seed(each)
        found = compiled().tolist()
        assert found == torch.rand(3, device="webgpu", generator=torch.Generator("webgpu").manual_seed(each)).tolist()


def test_other_threads_are_not_recorded() -> None:
    counter = torch.zeros(3)
    stop, running = threading.Event(), threading.Event()

    def work() -> None:
        own = 0
        while not stop.is_set():
            counter.add_(1)
            own += 1
            torch.rand(2)
            running.set()
        COUNTS.append(own)

    thread = threading.Thread(target=work)
    thread.start()
    running.wait(10)
    try:

        def function(x: Any) -> Any:
            for _ in range(50):
                x = x * 1.01
            return x

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = torch.compile(function)
            for _ in range(5):
                assert torch.allclose(compiled(torch.ones(3)), function(torch.ones(3)))
            assert compiled.statistics == {"recorded": 1, "replayed": 4, "fallbacks": 0}
    finally:
        stop.set()
        thread.join()
    assert counter.tolist() == [float(COUNTS.pop())] * 3


COUNTS: list[int] = []


def test_old_weights_are_freed() -> None:
    import gc
    import weakref

    model = nn.Linear(200, 200)
    compiled = torch.compile(model)
    x = torch.ones(1, 200)
    with torch.no_grad():
        assert compiled(x).shape == compiled(x).shape
        old = weakref.ref(model.weight._storage.value)
        model.weight.data = torch.zeros(200, 200)
        assert torch.allclose(compiled(x), model.bias.expand(1, 200))
    gc.collect()
    assert old() is None


class Noted:
    """An object whose special methods change what can be reached."""

    notes: list[str] = []

    def __init__(self, value: Any) -> None:
        self.value = value
        self.notes.append("made")

    def __enter__(self) -> Noted:
        self.notes.append("entered")
        return self

    def __exit__(self, *_: object) -> None:
        self.notes.append("left")

    def __add__(self, other: Any) -> Any:
        self.notes.append("added")
        return self.value + other

    def __getitem__(self, index: int) -> Any:
        self.notes.append("asked")
        return self.value[index]

    def __len__(self) -> int:
        self.notes.append("counted")
        return 3

    def __call__(self, x: Any) -> Any:
        self.notes.append("called")
        return x * self.value


def _inside(x: Any) -> Any:
    with Noted(x):
        return x + 1


NOTED = Noted(torch.arange(3.0))
SPECIAL: dict[str, Callable[[Any], Any]] = {
    "with": _inside,
    "made": lambda x: Noted(x).value * 2,
    "+": lambda x: NOTED + x,
    "[]": lambda x: NOTED[1] + x,
    "len": lambda x: x + len(NOTED),
    "()": lambda x: NOTED(x),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_methods_with_side_effects(name: str) -> None:
    x = torch.arange(3.0)
    wanted = SPECIAL[name](x).tolist()
    compiled = torch.compile(SPECIAL[name])
    Noted.notes.clear()
    SPECIAL[name](x)
    once = len(Noted.notes)
    Noted.notes.clear()
    with pytest.warns(UserWarning, match="every call changes what the next one finds"):
        assert [compiled(x).tolist() for _ in range(5)] == [wanted] * 5
    assert len(Noted.notes) == 5 * once > 0


def test_classes_without_a_file() -> None:
    """Classes of a notebook, whose module has none."""
    scope: dict[str, Any] = {"__name__": "nowhere", "notes": []}
    exec("class Kept:\n    def __enter__(self): notes.append(1)\n    def __exit__(self, *_): pass\n", scope)
    exec("def function(x):\n    with Kept():\n        return x + 1\n", scope)
    compiled = torch.compile(scope["function"])
    with pytest.warns(UserWarning, match="every call changes what the next one finds"):
        for _ in range(5):
            compiled(torch.ones(2))
    assert len(scope["notes"]) == 5


@pytest.mark.parametrize("by_function", [False, True])
def test_variables_of_the_environment(by_function: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALE_OF_A_TEST", "2")

    def by_name(x: Any) -> Any:
        return x * float(os.environ["SCALE_OF_A_TEST"])

    def by_call(x: Any) -> Any:
        return x * float(os.getenv("SCALE_OF_A_TEST", "1"))

    compiled, x = torch.compile(by_call if by_function else by_name), torch.ones(())
    assert [compiled(x).item() for _ in range(3)] == [2.0] * 3
    monkeypatch.setenv("SCALE_OF_A_TEST", "7")
    assert [compiled(x).item() for _ in range(3)] == [7.0] * 3


def test_what_is_printed_is_printed_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    def helper(x: Any) -> None:
        print(tuple(x.shape))

    def function(x: Any) -> Any:
        helper(x)
        return x + 1

    compiled = torch.compile(function)
    with pytest.warns(UserWarning, match="it prints"):
        for _ in range(3):
            compiled(torch.ones(2))
    assert capsys.readouterr().out == "(2,)\n" * 3


@pytest.mark.parametrize("of_compiled", [False, True])
def test_attributes_of_functions(of_compiled: bool) -> None:
    def helper() -> int:
        helper.calls = getattr(helper, "calls", 0) + 1  # type: ignore[attr-defined]
        return helper.calls  # type: ignore[attr-defined]

    def function(x: Any) -> Any:
        compiled.calls = getattr(compiled, "calls", 0) + 1
        return x * compiled.calls

    compiled = torch.compile(function if of_compiled else lambda x: x * helper())
    with pytest.warns(UserWarning, match="every call changes what the next one finds"):
        assert [compiled(torch.ones(())).item() for _ in range(5)] == [1, 2, 3, 4, 5]


class Shared:
    weight = torch.ones(3)
    parts = [2.0]


def test_what_classes_have_for_all_of_their_objects() -> None:
    """Tensors and lists of a class, be they replaced or changed."""
    shared = Shared()

    def function(x: Any) -> Any:
        return x * Shared.weight + shared.weight * shared.parts[0]

    compiled, x = torch.compile(function), torch.arange(3.0)

    def check() -> None:
        for _ in range(3):
            assert compiled(x).tolist() == function(x).tolist()

    check()
    Shared.weight.add_(1)
    check()
    Shared.parts.append(3.0)
    Shared.parts[0] = 5.0
    check()
    Shared.weight = torch.full((3,), 7.0)
    check()
    assert compiled.statistics["recorded"] == 2
