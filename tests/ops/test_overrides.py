"""``__torch_function__`` and modes: the same calls arrive, with the same classes, and the same results come back."""

from __future__ import annotations

import copy
import inspect
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as facade
from hypothesis import given
from hypothesis import strategies as st
from override_programs import EVERY
from webgpu_torch_core import overrides as core_overrides
from webgpu_torch_core.tensors.read_only import ReadOnly

BOTH = pytest.mark.parametrize("lib", [torch, facade], ids=["torch", "ours"])


pytestmark = pytest.mark.usefixtures("no_overriding_classes")


def logging_class(lib: Any, log: list[Any]) -> Any:
    """Return a class of tensors that notes the calls it answers."""

    class Logged(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append((func.__name__, tuple(each.__name__ for each in types)))
            return super().__torch_function__(func, types, args, kwargs)

    return Logged


def logging_mode(lib: Any, log: list[Any]) -> Any:
    """Return a mode that notes the calls that pass through it."""

    class Noting(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append(func.__name__)
            return func(*args, **(kwargs or {}))

    return Noting()


def described(lib: Any, value: Any) -> Any:
    """Return the classes and rounded values of a result."""
    if isinstance(value, lib.Tensor):
        numbers = value.detach().as_subclass(lib.Tensor).tolist()
        return type(value).__name__, numpy.asarray(numbers, "float64").round(4).tolist()
    if isinstance(value, tuple | list) and not isinstance(value, lib.Size):
        return type(value).__name__, [described(lib, each) for each in value]
    return tuple(value) if isinstance(value, lib.Size) else value


def sample(lib: Any) -> Any:
    """Return the programs' operand."""
    return lib.arange(6.0).reshape(2, 3) + 0.5


@pytest.mark.parametrize("name", EVERY)
def test_a_class_receives_the_calls_that_pytorch_sends_it(name: str) -> None:
    outcomes = []
    for lib in (torch, facade):
        log: list[Any] = []
        operand = sample(lib).as_subclass(logging_class(lib, log))
        log.clear()
        result = EVERY[name](lib, operand)
        calls = list(log)
        outcomes.append((calls, str(described(lib, result)).replace("torch.", "")))
    assert str(outcomes[1]) == str(outcomes[0]).replace("webgpu_torch_core.", "")


@pytest.mark.parametrize("name", EVERY)
def test_a_mode_sees_the_calls_that_pytorch_shows_it(name: str) -> None:
    logs: list[list[Any]] = [[], []]
    for lib, log in zip((torch, facade), logs, strict=True):
        operand = sample(lib)
        with logging_mode(lib, log):
            EVERY[name](lib, operand)
    if name == "method-parameter":
        # A Parameter asks plain tensors for their properties here.
        logs[1] = [each for each in logs[1] if each != "__get__"]
    assert logs[1] == logs[0]


#: functions of networks that PyTorch calls by other ones, or of which it looks at the arguments first
CALLED_BY_OTHERS = {
    "grouped_mm", "l1_loss", "sigmoid", "tanh", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
}  # fmt: skip


def _functions_of_networks() -> list[str]:
    own, theirs = vars(facade.nn.functional), vars(torch.nn.functional)
    names = [name for name in own if not name.startswith("_") and name not in CALLED_BY_OTHERS]
    functions = [name for name in names if isinstance(theirs.get(name), types.FunctionType) and callable(own[name])]
    # Several pools are chosen from two functions by a name of any arguments.
    return [name for name in functions if "args" not in inspect.signature(theirs[name]).parameters]


@pytest.mark.parametrize("name", _functions_of_networks())
@given(data=st.data())
def test_handlers_are_given_the_arguments_that_pytorch_gives_them(name: str, data: st.DataObject) -> None:
    parameters = list(inspect.signature(getattr(torch.nn.functional, name)).parameters.values())
    required = sum(each.default is each.empty for each in parameters)
    options = data.draw(st.lists(st.sampled_from(parameters[required:] or parameters), unique=True, max_size=3))
    given = {each.name: each.default for each in options if each in parameters[required:]}
    by_place = data.draw(st.integers(1, max(1, required)))
    given |= {each.name: number for number, each in enumerate(parameters[by_place:required])}
    answers: list[Any] = []
    for library in (torch, facade):

        class Answering:
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                shown = {key: "self" if isinstance(value, cls) else value for key, value in (kwargs or {}).items()}
                return getattr(func, "__name__", None), len(args), shown

        # The first object of a class that overrides and holds no tensor is noticed where a call fails.
        core_overrides.notice((Answering(),), {})
        try:
            answers.append(getattr(library.nn.functional, name)(*(Answering() for _ in range(by_place)), **given))
        except TypeError:
            answers.append(TypeError)
    assert answers[1] == answers[0]


@pytest.mark.parametrize("name", ["celu", "selu", "add", "where", "linear", "multilabel_soft_margin_loss"])
def test_the_first_object_that_overrides_and_is_no_tensor(name: str) -> None:
    answers = []
    for library in (torch, facade):

        class Answering:
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return func.__name__

        home = library if name in ("add", "where") else library.nn.functional
        count = {"celu": 1, "selu": 1, "where": 3}.get(name, 2)
        answers.append(getattr(home, name)(*(Answering() for _ in range(count))))
    assert answers[1] == answers[0]


class Unanswering:
    """Declines every call, and knows some operators itself."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented

    def __radd__(self, other: Any) -> str:
        return "radd"

    def __rand__(self, other: Any) -> str:
        return "rand"

    def __rmatmul__(self, other: Any) -> str:
        return "rmatmul"


_BINARY = ["+", "-", "*", "/", "@", "**", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>"]


@pytest.mark.parametrize("sign", _BINARY)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("noticed", [True, False])
def test_operators_beside_objects_that_decline(sign: str, first: bool, noticed: bool) -> None:
    answers = []
    for library in (torch, facade):
        if noticed:
            core_overrides.notice((Unanswering(),), {})
        sides = library.ones(2), Unanswering()
        one, two = sides if first else sides[::-1]
        try:
            answers.append(eval(f"one {sign} two", {"one": one, "two": two}))
        except TypeError as error:
            answers.append(str(error))
    assert answers[1] == answers[0]


def test_nothing_is_sent_once_the_modes_are_closed() -> None:
    log: list[Any] = []
    with logging_mode(facade, log):
        facade.ones(2)
    assert not core_overrides._active
    assert isinstance(vars(facade.Tensor)["dtype"], ReadOnly)
    facade.ones(2).shape  # noqa: B018
    assert log == ["ones"]


#: ways in which a program comes to its first tensor of a class
FIRST: dict[str, Callable[[Any, Any], Any]] = {
    "as_subclass": lambda lib, kind: lib.ones(2).as_subclass(kind),
    "of numbers": lambda lib, kind: kind([1.0, 1.0]),
    "_make_subclass": lambda lib, kind: lib.Tensor._make_subclass(kind, lib.ones(2)),
    "parameter": lambda lib, kind: lib.nn.Parameter(lib.Tensor._make_subclass(kind, lib.ones(2))),
    "copy": lambda lib, kind: copy.copy(lib.ones(2).as_subclass(kind)),
}


@given(defined=st.integers(1, 4), first=st.sampled_from(sorted(FIRST)))
def test_classes_are_asked_once_there_is_an_object_of_one(defined: int, first: str) -> None:
    logs: list[list[Any]] = [[], []]
    for lib, log in zip((torch, facade), logs, strict=True):
        core_overrides.forget_classes()
        kinds = [logging_class(lib, log) for _ in range(defined)]
        # Nothing is looked for on behalf of classes alone, whatever libraries define.
        assert not core_overrides._active
        lib.ones(2).shape  # noqa: B018
        made = FIRST[first](lib, kinds[-1])
        assert core_overrides._active is (lib is facade)
        log.clear()
        assert type(made + lib.ones(2)) is type(lib.ones(2) + made) is type(lib.exp(made))
        assert made.shape == (2,)
    assert logs[1] == logs[0]


@BOTH
def test_modes_nest_and_are_closed_in_their_own_handlers(lib: Any) -> None:
    log: list[Any] = []

    class Named(lib.overrides.TorchFunctionMode):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            log.append((self.name, func.__name__))
            lib.zeros(1)
            return func(*args, **(kwargs or {}))

    with Named("outer"), Named("inner"):
        assert lib.ones(2).sum().item() == 2
    assert log[:4] == [("inner", "ones"), ("outer", "zeros"), ("outer", "ones"), ("inner", "sum")]


@BOTH
def test_a_mode_may_answer_instead_of_the_function(lib: Any) -> None:
    class Answering(lib.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is lib.nn.functional.scaled_dot_product_attention:
                return kwargs["value"]
            return func(*args, **(kwargs or {}))

    value = lib.ones(1, 2, 3)
    with Answering():
        assert lib.nn.functional.scaled_dot_product_attention(value, value, value=value) is value


@BOTH
def test_modes_are_of_one_thread(lib: Any) -> None:
    log: list[Any] = []
    with logging_mode(lib, log):
        thread = threading.Thread(target=lambda: lib.ones(2) + 1)
        thread.start()
        thread.join()
    assert log == []


@BOTH
def test_subclasses_come_before_superclasses_and_the_left_before_the_right(lib: Any) -> None:
    asked: list[str] = []

    def passing(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asked.append(cls.__name__)
        return NotImplemented

    base = type("Base", (lib.Tensor,), {"__torch_function__": classmethod(passing)})
    derived = type("Derived", (base,), {})
    other = type("Other", (lib.Tensor,), {"__torch_function__": classmethod(passing)})
    operands = [lib.ones(2).as_subclass(each) for each in (other, base, derived)]
    with pytest.raises(TypeError, match="Multiple dispatch failed"):
        lib.stack(operands)
    assert asked == ["Other", "Derived", "Base"]


@BOTH
def test_an_object_that_is_no_tensor_may_answer(lib: Any) -> None:
    class Scalar:
        def __init__(self, value: float) -> None:
            self.value = value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is not lib.add and func.__name__ not in ("sub", "linear"):
                return NotImplemented
            return func.__name__, types, len(args)

    number = Scalar(2.0)
    assert lib.add(number, lib.ones(2)) == ("add", (Scalar,), 2)
    assert lib.add(lib.ones(2), other=number) == ("add", (Scalar,), 1)
    assert lib.ones(2) - number == ("sub", (Scalar,), 2)
    assert lib.nn.functional.linear(number, lib.ones(2, 2))[0] == "linear"
    with pytest.raises(TypeError):
        lib.mul(number, 2)


@BOTH
def test_regions_without_overriding(lib: Any) -> None:
    log: list[Any] = []
    kind = logging_class(lib, log)
    operand = sample(lib).as_subclass(kind)
    log.clear()
    with lib._C.DisableTorchFunctionSubclass():
        assert type(operand + 1) is lib.Tensor
        assert not lib.overrides.has_torch_function((operand,))
        with logging_mode(lib, log):
            operand.sum()
    assert log == ["sum"]
    log.clear()
    with logging_mode(lib, log), lib._C.DisableTorchFunction():
        assert type(operand * 2) is lib.Tensor
    assert log == []
    assert type(operand + 1) is kind


@BOTH
def test_parameters_override_nothing(lib: Any) -> None:
    weight = lib.nn.Parameter(lib.ones(2))
    assert type(weight * 2) is lib.Tensor
    assert type(weight.detach()) is lib.Tensor
    assert not lib.overrides.has_torch_function((weight,))
    assert lib.nn.Parameter.__torch_function__ is lib._C._disabled_torch_function_impl


@BOTH
def test_a_class_of_parameters_may_override(lib: Any) -> None:
    class Quantised(lib.nn.Parameter):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            with lib._C.DisableTorchFunctionSubclass():
                return func.__name__, func(*args, **(kwargs or {}))

    weight = Quantised(lib.ones(2, 3))
    name, result = lib.nn.functional.linear(lib.ones(1, 3), weight)
    assert name == "linear"
    assert result.tolist() == [[3.0, 3.0]]


@BOTH
def test_subclasses_keep_their_class_gradients_and_attributes(lib: Any) -> None:
    class Labelled(lib.Tensor):
        pass

    leaf = sample(lib).requires_grad_()
    operand = leaf.as_subclass(Labelled)
    operand.label = "a"
    result = (operand * 2).sum()
    assert type(result) is Labelled
    assert result.requires_grad
    assert operand.grad_fn.name() == "AliasBackward0"
    result.backward()
    assert type(leaf.grad) is lib.Tensor
    assert leaf.grad.tolist() == [[2.0] * 3] * 2
    part = operand.detach()[0]
    part.add_(1)
    assert leaf.tolist()[0] == [1.5, 2.5, 3.5]
    with pytest.raises(TypeError):
        leaf.as_subclass(int)


@BOTH
def test_questions_about_overriding(lib: Any) -> None:
    overrides = lib.overrides
    operand = sample(lib).as_subclass(logging_class(lib, []))
    assert overrides.has_torch_function([1, operand])
    assert overrides.has_torch_function_unary(operand)
    assert overrides.has_torch_function_variadic(1, operand)
    assert not overrides.has_torch_function([1, lib.ones(2), lib.nn.Parameter(lib.ones(1))])
    assert overrides.is_tensor_like(lib.ones(2))
    assert overrides.is_tensor_like(operand)
    assert not overrides.is_tensor_like(6)
    assert overrides.is_tensor_method_or_property(lib.Tensor.add)
    assert overrides.is_tensor_method_or_property(lib.Tensor.T.__get__)
    assert not overrides.is_tensor_method_or_property(lib.add)
    assert lib.Tensor.as_subclass in overrides.get_ignored_functions()
    assert lib.add not in overrides.get_ignored_functions()
    assert lib.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


@pytest.mark.parametrize(
    "path",
    [
        "add",
        "Tensor.add",
        "Tensor.add_",
        "linalg.norm",
        "special.erf",
        "fft.fft",
        "nn.functional.relu",
        "Tensor.shape.__get__",
    ],
)
def test_names_of_functions(path: str) -> None:
    for lib in (torch, facade):
        function = lib
        for part in path.split("."):
            function = getattr(function, part)
        expected = f"torch.{path}" if lib is facade else lib.overrides.resolve_name(function)
        assert lib.overrides.resolve_name(function) == expected
        assert (function in lib.overrides.get_testing_overrides()) or lib is torch
    assert facade.overrides.resolve_name(len) is None


def test_overridable_functions_are_listed_where_they_are_found() -> None:
    listed = facade.overrides.get_overridable_functions()
    assert facade.add in listed[facade]
    assert facade.Tensor.add in listed[facade.Tensor]
    assert facade.nn.functional.relu in listed[facade.nn.functional]
    stand_in = facade.overrides.get_testing_overrides()[facade.add]
    assert stand_in(1, other=2) == -1
    with pytest.raises(TypeError):
        stand_in()


@BOTH
def test_a_users_function_can_be_made_overridable(lib: Any) -> None:
    @lib.overrides.wrap_torch_function(lambda first, times=2: (first,))
    def doubled(first: Any, times: int = 2) -> Any:
        return first * times

    log: list[Any] = []
    operand = sample(lib).as_subclass(logging_class(lib, log))
    log.clear()
    assert doubled(lib.ones(1)).tolist() == [2.0]
    assert log == []
    assert type(doubled(operand, times=3)) is type(operand)
    assert log == [("doubled", ("Logged",))]


def test_a_device_context_beside_a_mode() -> None:
    log: list[Any] = []
    with facade.device("meta"), logging_mode(facade, log):
        assert facade.ones(2).device.type == "meta"
    assert log == ["ones", "__get__"]


@pytest.mark.parametrize("lib", [torch, facade], ids=["torch", "ours"])
def test_arguments_of_wrong_types_are_named_under_a_mode(lib: Any) -> None:
    def wrong() -> Any:
        return lib.kron([1.0], lib.ones(2))

    with lib.overrides.BaseTorchFunctionMode(), pytest.raises(TypeError, match="must be Tensor, not list"):
        wrong()
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        wrong()
