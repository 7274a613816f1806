"""Operations of ``torch.library.custom_op`` have schemas, take arguments, and have gradients as PyTorch's have."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch as pytorch
import webgpu_torch as torch
from hypothesis import given, settings
from hypothesis import strategies as st

LIBRARIES = (pytorch, torch)
_numbers = itertools.count()

#: annotations by what programs write, given a library, and values that fit and that do not
KINDS: dict[str, tuple[Callable[[Any], object], Callable[[Any], list[object]]]] = {
    "tensor": (lambda lib: lib.Tensor, lambda lib: [lib.ones(2), 3, "text", None]),
    "tensors": (
        lambda lib: list[lib.Tensor],
        lambda lib: [[lib.ones(2), lib.ones(1)], (lib.zeros(1),), lib.ones(2), 3],
    ),
    "optional": (lambda lib: lib.Tensor | None, lambda lib: [None, lib.ones(1), 2]),
    "int": (lambda lib: int, lambda lib: [3, 2**40, "text", None]),
    "ints": (lambda lib: Sequence[int], lambda lib: [[1, 2], (), "text"]),
    "float": (lambda lib: float, lambda lib: [1.5, 2, "text", [1.0]]),
    "floats": (lambda lib: list[float] | None, lambda lib: [[1.0, 2], None, ["text"]]),
    "bool": (lambda lib: bool, lambda lib: [True, False, "text"]),
    "text": (lambda lib: str, lambda lib: ["text", 3]),
    "type": (lambda lib: lib.dtype, lambda lib: [lib.float16, "text"]),
}
DEFAULTS: dict[str, object] = {"optional": None, "int": 4, "float": -0.5, "floats": None, "bool": True, "text": "none"}


def made(lib: Any, parameters: list[tuple[str, bool, bool]], name: str) -> Any:
    """Return an operation that tells what it was given: parameters by kind, whether they have a default, and are named."""
    heads, space = [], {"Tensor": lib.Tensor, "ones": lib.ones}
    for place, (kind, default, named) in enumerate(parameters):
        if named and "*" not in heads:
            heads.append("*")
        space[f"K{place}"] = KINDS[kind][0](lib)
        heads.append(f"a{place}: K{place}" + (f" = {DEFAULTS[kind]!r}" if default else ""))
    names = ", ".join(f"a{place}" for place in range(len(parameters)))
    exec(
        f"def function({', '.join(heads)}) -> Tensor:\n    told.append([{names}])\n    return ones(1)",
        space | {"told": TOLD}, found := {},
    )  # fmt: skip
    return lib.library.custom_op(name, found["function"], mutates_args=())


TOLD: list[list[object]] = []


def plain(value: object) -> object:
    """Return a value in words that both libraries share."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else f"{type(value).__name__} {value}"


def answer(operation: Any, args: list[object], kwargs: dict[str, object]) -> object:
    TOLD.clear()
    try:
        operation(*args, **kwargs)
    except RuntimeError as error:
        return str(error).partition("\nCast error details")[0].partition("\nValue: ")[0]
    return plain(TOLD)


@st.composite
def parameter_lists(draw: st.DrawFn) -> list[tuple[str, bool, bool]]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    named = draw(st.integers(1, len(kinds)))
    # PyTorch has no tensors among arguments that are only named; defaults stand last.
    kinds = [
        each if place < named or "tensor" not in each and each != "optional" else "float"
        for place, each in enumerate(kinds)
    ]
    default = [each in DEFAULTS and draw(st.booleans()) for each in kinds]
    for place in reversed(range(named - 1)):
        default[place] = default[place] and default[place + 1]
    return [(kind, default[place], place >= named) for place, kind in enumerate(kinds)]


@settings(deadline=None)
@given(parameter_lists(), st.data())
def test_schemas_and_arguments(parameters: list[tuple[str, bool, bool]], data: st.DataObject) -> None:
    name = f"drawn::operation{next(_numbers)}"
    operations = [made(lib, parameters, name) for lib in LIBRARIES]
    texts = [str(each._opoverload._schema) for each in operations]
    assert texts[0] == texts[1]
    for lib, operation in zip(LIBRARIES, operations, strict=True):
        packet = getattr(lib.ops.drawn, operation._qualname.partition("::")[2])
        assert str(packet.default) == f"drawn.{packet.__name__}.default"
    by_place = data.draw(st.integers(0, sum(not named for _, _, named in parameters)))
    choices = [data.draw(st.integers(0, len(KINDS[kind][1](torch)) - 1)) for kind, _, _ in parameters]
    left_out = [place >= by_place and data.draw(st.booleans()) for place in range(len(parameters))]
    found = []
    for lib, operation in zip(LIBRARIES, operations, strict=True):
        values = [KINDS[kind][1](lib)[choice] for (kind, _, _), choice in zip(parameters, choices, strict=True)]
        kwargs = {f"a{place}": values[place] for place in range(by_place, len(values)) if not left_out[place]}
        found.append(answer(operation, values[:by_place], kwargs))
    assert found[0] == found[1]


def scaled(lib: Any, name: str, told: list[object]) -> Any:
    def function(xs: list, scale: float = 2.0, *, power: int = 1) -> Any:  # type: ignore[type-arg]
        return [each * scale**power for each in xs]

    function.__annotations__ = {"xs": list[lib.Tensor], "scale": float, "power": int, "return": list[lib.Tensor]}
    operation = lib.library.custom_op(name, function, mutates_args=())

    def keep(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        told.append((len(inputs[0]), inputs[1], dict(keyword_only_inputs), type(output).__name__))
        ctx.factor = inputs[1] ** keyword_only_inputs["power"]

    def differentiate(ctx: Any, grads: Any) -> Any:
        told.append((type(grads).__name__, ctx.needs_input_grad))
        return [each * ctx.factor for each in grads], None

    operation.register_autograd(differentiate, setup_context=keep)
    return operation


# Where there are lists, PyTorch itself loses count of the arguments that a call leaves out.
@pytest.mark.parametrize("arguments", [{"scale": 3}, {"scale": 0.5, "power": 2}])
def test_gradients_of_named_arguments_and_lists(arguments: dict[str, float]) -> None:
    found = []
    for lib in LIBRARIES:
        told: list[object] = []
        operation = scaled(lib, f"drawn::scaled{next(_numbers)}", told)
        x, y = lib.ones(2, requires_grad=True), lib.full((3,), 2.0)
        results = operation([x, y], **arguments)
        sum(each.sum() for each in results).backward()
        found.append((told, [each.tolist() for each in results], x.grad.tolist(), y.grad))
    assert found[0] == found[1]


def stretched(lib: Any, name: str, told: list[object]) -> Any:
    def function(x: Any, scale: float = 2.0, power: int = 1) -> Any:
        return x * scale**power

    function.__annotations__ = {"x": lib.Tensor, "scale": float, "power": int, "return": lib.Tensor}
    operation = lib.library.custom_op(name, function, mutates_args=())

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        told.append((inputs[1:], output.tolist()))
        ctx.factor = inputs[1] ** inputs[2]

    lib.library.register_autograd(name, lambda ctx, grad: (grad * ctx.factor, None, None), setup_context=keep)
    return operation


@pytest.mark.parametrize("arguments", [{}, {"scale": 3}, {"power": 3}, {"scale": 0.5, "power": 2}])
def test_gradients_where_arguments_are_left_out(arguments: dict[str, float]) -> None:
    found = []
    for lib in LIBRARIES:
        told: list[object] = []
        operation = stretched(lib, f"drawn::stretched{next(_numbers)}", told)
        x = lib.ones(2, requires_grad=True)
        operation(x=x, **arguments).sum().backward()
        found.append((told, x.grad.tolist()))
    assert found[0] == found[1]


def boxed(lib: Any, name: str) -> Any:
    def function(x: Any) -> Any:
        return x.new_tensor([float(each) ** 2 for each in x.tolist()])

    function.__annotations__ = {"x": lib.Tensor, "return": lib.Tensor}
    return lib.library.custom_op(name, function, mutates_args=())


def test_a_function_is_a_closed_box() -> None:
    found = []
    for lib in LIBRARIES:
        name = f"drawn::boxed{next(_numbers) * 0}"
        operation = boxed(lib, name)
        x = lib.arange(3.0).requires_grad_()
        result = operation(x)
        with pytest.raises(RuntimeError) as unknown:
            result.sum().backward()
        with pytest.raises(RuntimeError) as shapeless:
            operation(lib.empty(3, device="meta"))
        operation.register_fake(lambda x: x.new_empty(x.shape))
        shape = tuple(operation(lib.empty(3, device="meta")).shape)
        found.append((result.requires_grad, str(unknown.value), str(shapeless.value), shape, repr(operation)))
    assert found[0] == found[1]
    alias = torch.library.custom_op("drawn::alias", lambda x: x[:1], mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=r"may not alias any inputs to this custom operator"):
        alias(torch.ones(2))


@pytest.mark.parametrize("write", [
    lambda lib: lib.library.infer_schema(lambda x: x, mutates_args=()),
    lambda lib: lib.library.custom_op("drawn::bare", lambda *x: x, mutates_args=()),
    lambda lib: getattr(lib.ops.drawn, "missing"),  # noqa: B009
])  # fmt: skip
def test_refusals(write: Callable[[Any], object]) -> None:
    found = []
    for lib in LIBRARIES:
        with pytest.raises((ValueError, AttributeError)) as caught:
            write(lib)
        found.append((type(caught.value), str(caught.value)))
    assert found[0] == found[1]


def test_writes_are_part_of_schemas() -> None:
    found = []
    for lib in LIBRARIES:
        function = lambda x, out: out.copy_(x) and None  # noqa: E731
        function.__annotations__ = {"x": lib.Tensor, "out": lib.Tensor, "return": None}
        texts = [
            lib.library.infer_schema(function, mutates_args=each, op_name="f") for each in ((), ("out",), "unknown")
        ]
        with pytest.raises(ValueError, match="were not found in the custom op's signature") as caught:
            lib.library.infer_schema(function, mutates_args=["other"])
        found.append((texts, str(caught.value).partition(" Got func")[0]))
    assert found[0] == found[1]
