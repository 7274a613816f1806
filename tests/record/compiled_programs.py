"""What drawn programs are made of: a network with all that its functions depend on, and what may change between two calls."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import webgpu_torch as torch
from webgpu_torch import nn
from webgpu_torch.overrides import TorchFunctionMode

#: a global that the programs' functions read, and one whose content they read
SCALE = 1.0
TABLE = {"scale": 1.0}
#: what a program does: a name and a number
Step = tuple[str, int]


class Shifting(TorchFunctionMode):
    """A mode that adds to what linear layers return."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result + 1 if getattr(func, "__name__", "") == "linear" else result


class Whole(nn.Module):
    """The network as a part of another module, which is compiled as such."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inner = model
        self.scale = 1.0

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale


class Program:
    """A small network with all that its functions depend on; ``compiled`` or not."""

    def __init__(self, device: str, compiled: bool) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model: Any = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.0), nn.Linear(4, 2)).to(device)
        self.x: Any = torch.randn(4, 3).to(device)
        self.seen: Any = torch.zeros(3, device=device)
        self.extra: Any = torch.full((2,), 0.5, device=device)
        self.extra.scale = 1.0
        self.factor = 1.0
        self.options: Any = {"shift": [0.0, 1.0], "sign": 1}
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.handles: list[Any] = []
        self.modes: list[Callable[[], Any]] = []
        self.seed = 0
        make: Callable[[Any], Any] = torch.compile if compiled else lambda function: function
        self._define(make)

    def _define(self, make: Callable[[Any], Any]) -> None:
        factor_of = lambda: self.factor  # noqa: E731
        offset, pair = 0.0, [1.0, 0.0]

        def set_offset(number: int) -> None:
            nonlocal offset
            offset = float(number)
            pair[number % 2] = number / 4

        def forward(x: Any, options: Any) -> Any:
            made = self.model(x) * factor_of() + options["shift"][0] * options["sign"]
            made = made + self.extra * self.extra.scale
            return made * SCALE * TABLE["scale"] + offset, torch.ones(2) * options["shift"][1] + pair[0] * pair[1]

        def note(x: Any, seen: Any) -> Any:
            seen.add_(x.detach().sum(0)[:3])
            x.mul_(0.5)
            return seen * 2

        def train(x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss.detach()

        self.set_offset = set_offset
        self.forward, self.note, self.train = make(forward), make(note), make(train)
        self.whole = make(Whole(self.model))

    def typed(self) -> Any:
        """Return the input in the type that the network has."""
        return self.x.to(next(self.model.parameters()).dtype)

    def run(self, name: str) -> list[Any]:
        """Return what one kind of call gives."""
        if name == "call":
            return list(self.forward(self.typed(), self.options))
        if name == "whole":
            return [self.whole(self.typed())]
        if name == "each":
            return list(torch.func.vmap(lambda x: self.forward(x, self.options)[0])(torch.stack([self.typed()] * 2)))
        if name == "note":
            return [self.note(self.x, self.seen), self.x, self.seen]
        return [self.train(self.typed())]

    def outcome(self, name: str) -> Any:
        """Return what one kind of call gives in the modes of now, or the class of what it raises."""
        self.seed += 1
        with ExitStack() as stack:
            for mode in self.modes:
                stack.enter_context(mode())
            torch.manual_seed(self.seed)
            return outcome_of(lambda: self.run(name))


def outcome_of(function: Callable[[], Any]) -> Any:
    """Return what a function gives, or the class of what it raises."""
    try:
        return function()
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        return type(error)


def in_a_thread(function: Callable[[], Any], device: str) -> Any:
    """Return what a function gives in a thread of its own, while another one writes and draws on the same device."""
    found: list[Any] = []
    stop, running = threading.Event(), threading.Event()
    counter = torch.zeros(3, device=device, dtype=torch.float32)
    generator = torch.Generator(device)

    def disturb() -> None:
        while not stop.is_set():
            counter.add_(1)
            torch.rand(2, device=device, generator=generator, dtype=torch.float32)
            counter.tolist()
            running.set()
            stop.wait(0.001)

    other = threading.Thread(target=disturb)
    other.start()
    running.wait(20)
    own = threading.Thread(target=lambda: found.append(function()))
    own.start()
    own.join()
    stop.set()
    other.join()
    return found[0]


def replace(program: Program, number: int) -> None:
    weight = program.model[0].weight
    weight.data = weight.data * (1 + number / 4)


def assign(program: Program, number: int) -> None:
    state = {
        name: each * (1 + number / 8) if each.is_floating_point() else each.clone()
        for name, each in program.model.state_dict().items()
    }
    program.model.load_state_dict(state, assign=True)


def set_mode(program: Program, number: int) -> None:
    device = program.device
    lower = torch.bfloat16 if device == "cpu" else torch.float16
    cast = lambda: torch.autocast(device, lower)  # noqa: E731
    here = lambda: torch.device(device)  # noqa: E731
    program.modes = [
        [], [torch.no_grad], [torch.inference_mode], [torch.no_grad, cast], [here, torch.no_grad], [cast],
        [here, torch.inference_mode, cast], [torch.no_grad, Shifting], [lambda: torch.set_grad_enabled(False)],
        [lambda: torch.autocast(device, lower, enabled=False), torch.no_grad],
    ][number]  # fmt: skip


def add_hook(program: Program, number: int) -> None:
    if program.handles:
        program.handles.pop().remove()
        return
    layer = program.model[number % 4]
    if number < 4:
        program.handles.append(layer.register_forward_hook(lambda module, given, result: result + number))
    elif number < 8:
        program.handles.append(layer.register_forward_pre_hook(lambda module, given: (given[0] * number,)))
    elif number == 8:
        program.handles.append(program.model[0].weight.register_hook(lambda grad: grad * 3))
    else:
        program.handles.append(program.model[3].weight.register_post_accumulate_grad_hook(halve_gradient))


def halve_gradient(parameter: Any) -> None:
    with torch.no_grad():
        parameter.grad.mul_(0.5)


def submodule(program: Program, number: int) -> None:
    torch.manual_seed(number)
    program.model[3] = nn.Linear(4, 2, bias=number % 2 == 0).to(program.device)
    program.optimizer = torch.optim.SGD(program.model.parameters(), lr=0.1, momentum=0.9)


def shift(program: Program, number: int) -> None:
    program.options["shift"][number % 2] = float(number)


def new_input(program: Program, number: int) -> None:
    x = torch.linspace(-2, number + 1, 12).to(program.device)
    shaped = [x.reshape(4, 3), x.reshape(3, 4).t(), x[:6].reshape(2, 3), x[::2].reshape(2, 3), x[:3].expand(4, 3)]
    program.x = shaped[number % 5].requires_grad_(number == 7)


def change_extra(program: Program, number: int) -> None:
    """Write into a tensor that a function knows, give it a history, or another attribute."""
    if number < 3:
        program.extra.add_(number)
    elif number < 6:
        program.extra.scale = float(number)
    elif number < 8:
        program.extra.add_(torch.ones(2, device=program.device, requires_grad=True))
    else:
        program.extra = program.extra.detach().clone()
        program.extra.scale = 0.5


def share_memory(program: Program, number: int) -> None:
    """Let the two arguments of ``note`` share memory, or no longer."""
    program.x = torch.linspace(-1, 1, 12).to(program.device).reshape(4, 3)
    program.seen = program.x[number % 4] if number % 2 else torch.zeros(3, device=program.device)


def globals_of_programs(program: Program, number: int) -> None:
    global SCALE
    del program
    if number % 2:
        SCALE = 1.0 + number / 4
    else:
        TABLE["scale"] = 1.0 + number / 4


ACTIONS: dict[str, Callable[[Program, int], Any]] = {
    "train": lambda program, number: program.model.train(number % 2 == 0),
    "eval a part": lambda program, number: program.model[1 + number % 2].eval(),
    "replace data": replace,
    "assign": assign,
    "write": lambda program, number: program.model[3].weight.data.mul_(1 + number / 4),
    "mode": set_mode,
    "factor": lambda program, number: setattr(program, "factor", 1.0 + number),
    "offset": lambda program, number: program.set_offset(number),
    "globals": globals_of_programs,
    "shift": shift,
    "grow": lambda program, number: program.options["shift"].append(float(number)),
    "sign": lambda program, number: program.options.__setitem__("sign", number % 3 - 1),
    "new options": lambda program, number: setattr(program, "options", {"shift": [float(number), 1.0], "sign": 1}),
    "input": new_input,
    "write input": lambda program, number: program.x.data.mul_(number),
    "share memory": share_memory,
    "extra": change_extra,
    "hook": add_hook,
    "dropout": lambda program, number: setattr(program.model[2], "p", number % 3 / 2),
    "submodule": submodule,
    "eps": lambda program, number: setattr(program.model[1], "eps", 10.0**-number),
    "requires_grad": lambda program, number: program.model[0].requires_grad_(number % 2 == 0),
    "half": lambda program, number: program.model.to(torch.float16 if number % 2 else torch.float32),
    "no bias": lambda program, number: setattr(program.model[0], "bias", None),
    "scale": lambda program, number: setattr(program.whole, "scale", number / 4),
    "clear": lambda program, number: program.optimizer.zero_grad(number % 2 == 0),
    "rate": lambda program, number: program.optimizer.param_groups[0].__setitem__("lr", 0.05 * (number + 1)),
    "momentum": lambda program, number: program.optimizer.param_groups[0].__setitem__("momentum", 0.5 * (number % 2)),
    "state": lambda program, number: program.optimizer.load_state_dict(program.optimizer.state_dict()),
    "default dtype": lambda program, number: torch.set_default_dtype([torch.float32, torch.float64][number % 2]),
}
#: kinds of calls
CALLS = ("call", "step", "whole", "note", "each")


def compare(ours: Any, expected: Any, what: str) -> None:
    """Demand that two tensors, or two classes of errors, agree."""
    if not isinstance(ours, torch.Tensor) or not isinstance(expected, torch.Tensor):
        assert ours is expected, (what, ours, expected)
        return
    assert ours.dtype is expected.dtype and ours.shape == expected.shape and ours.device == expected.device, what
    assert ours.requires_grad == expected.requires_grad and ours.stride() == expected.stride(), what
    assert ours.is_inference() == expected.is_inference(), what
    tolerance = 2e-2 if ours.dtype.itemsize == 2 else 1e-3
    found, wanted = (each.detach().flatten().tolist() for each in (ours, expected))
    close = [math.isclose(*both, rel_tol=tolerance, abs_tol=tolerance) for both in zip(found, wanted, strict=True)]
    both_nan = [one != one and other != other for one, other in zip(found, wanted, strict=True)]
    assert all(map(operator.or_, close, both_nan)), (what, found, wanted)


def compare_outcomes(ours: Any, expected: Any, what: str) -> None:
    """Demand that the results of two calls agree, or that both raised the same class of error."""
    if not isinstance(ours, list) or not isinstance(expected, list):
        compare(ours, expected, what)
        return
    for found, wanted in zip(ours, expected, strict=True):
        compare(found, wanted, what)


def run(device: str, program: list[Step]) -> None:
    """Run a program compiled and uncompiled: compare what calls return, and all that they change after training and at the end."""
    global SCALE
    try:
        pair = Program(device, True), Program(device, False)
        for place, (name, number) in enumerate([*program, ("call", 2)]):
            what = f"{place}: {name} {number}"
            kind, _, where = name.partition(" in ")
            if kind in CALLS:
                for _ in range(2 + number % 2):
                    ours, expected = (
                        in_a_thread(lambda each=each: each.outcome(kind), device) if where else each.outcome(kind)
                        for each in pair
                    )
                    compare_outcomes(ours, expected, what)
            else:
                ours, expected = (outcome_of(lambda each=each: ACTIONS[name](each, number)) for each in pair)
                assert isinstance(ours, type) == isinstance(expected, type), (what, ours, expected)
            if kind == "step":
                compare_states(*pair, what)
        compare_states(*pair, "at the end")
    finally:
        torch.set_default_dtype(torch.float32)
        SCALE = TABLE["scale"] = 1.0


def compare_states(ours: Program, expected: Program, what: str) -> None:
    """Compare parameters, buffers, gradients, momenta, and the tensors that calls were given."""
    found, wanted = (dict(each.model.state_dict()) for each in (ours, expected))
    assert list(found) == list(wanted)
    for key in found:
        compare(found[key], wanted[key], f"{what}: {key}")
    for one, other in zip(ours.model.parameters(), expected.model.parameters(), strict=True):
        compare(one.grad, other.grad, f"{what}: gradient")
        states = ours.optimizer.state.get(one, {}), expected.optimizer.state.get(other, {})
        compare(*(each.get("momentum_buffer") for each in states), f"{what}: momentum")
    compare(ours.x, expected.x, f"{what}: input")
    compare(ours.x.grad, expected.x.grad, f"{what}: input's gradient")
    compare(ours.seen, expected.seen, f"{what}: argument")
