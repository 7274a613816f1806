"""The interpreter itself: what the conformance suite does not reach."""

from __future__ import annotations

import math

import pytest
from webgpu_torch_core.backend.python_device import PythonDevice
from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir import interpreter
from webgpu_torch_core.ir.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32, int64
from webgpu_torch_core.ir.expression import argument, binary, constant, coordinate, load, make, parameter, select
from webgpu_torch_core.ir.interpreter import Environment, coordinates, evaluate, reduce_row
from webgpu_torch_core.ir.kernels import Kernel, Pointwise, Store
from webgpu_torch_core.ir.monoids import monoid
from webgpu_torch_testing import BackendConformance, assert_close, interpret, run_kernel
from webgpu_torch_testing.building import elementwise, operands, outputs


def test_coordinates_are_row_major():
    assert list(coordinates((2, 3))) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert list(coordinates(())) == [()]
    assert list(coordinates((2, 0))) == []


def test_shared_nodes_are_evaluated_once(monkeypatch):
    calls = []
    step = interpreter.STEPS["exp"]
    monkeypatch.setattr(step, "evaluate", lambda a: calls.append(a) or 2.0)
    x = make("exp", (load(0, 0, (1,), float32),), None, float32)
    value = x * x + x
    assert evaluate(value, (0,), Environment([[1.0]], [])) == 6.0
    assert calls == [1.0]


def test_integers_wrap_at_every_step():
    # (max + 1) // 2 differs between wrapping in between and only at the end.
    value = (parameter(0, int32) + 1) // 2
    assert evaluate(value, (), Environment([], [2**31 - 1])) == -(2**30)


def test_parameters_take_their_type():
    assert evaluate(parameter(0, float32), (), Environment([], [0.1])) == 0.10000000149011612
    assert evaluate(parameter(0, float64), (), Environment([], [0.1])) == 0.1
    assert evaluate(parameter(0, bool_), (), Environment([], [2])) is True


def test_typed_steps():
    def run(step, kind, a, b):
        return evaluate(make(step, (constant(a, kind), constant(b, kind)), None, kind), (), Environment([], []))

    assert run("nextafter", float64, 1.0, 2.0) == math.nextafter(1.0, 2.0)
    assert run("nextafter", float32, 1.0, 2.0) == 1.0 + 2.0**-23
    # 1 / 0.1 is just below 10, and rounds to 10 in float32.
    assert run("truncate_divide", float32, 1.0, 0.10000000149011612) == 10.0
    assert run("truncate_divide", float64, 1.0, 0.10000000149011612) == 9.0


@pytest.mark.parametrize(
    ("kind", "of", "expected"),
    [
        ("sum", float32, 0), ("product", int32, 1), ("any", bool_, False), ("all", bool_, True),
        ("maximum", float32, -math.inf), ("minimum", float64, math.inf), ("maximum", int8, -128),
        ("minimum", int64, 2**63 - 1),
    ],
)  # fmt: skip
def test_identities(kind, of, expected):
    result = reduce_row(monoid(kind, of), [])
    assert result == expected
    assert isinstance(result, bool) == (of is bool_)


def test_unknown_kinds_and_forms_are_named():
    with pytest.raises(ValueError, match="there is no monoid 'median'"):
        monoid("median", float32)
    with pytest.raises(TypeError, match="unknown kernel form Kernel"):
        interpreter.run_kernel(Kernel(), [], [], [])


def test_a_definition_runs_with_numbers():
    seen = []

    def twice(x):
        seen.append(x)
        return x * 2

    kernel = elementwise((3,), (float32,), lambda x: x * 2, float32, name="a definition")
    interpreter.register_definition(kernel, twice, (load(0, 0, (1,), float32),))
    assert interpret(kernel, [[1.0, 2.0, 3.0]]) == [[2.0, 4.0, 6.0]]
    assert seen == [1.0, 2.0, 3.0]


def test_definitions_that_need_types_run_as_expressions():
    kernel = elementwise(
        (1,), (float64, float64), lambda a, b: make("nextafter", (a, b), None, float64), float64, name="typed"
    )
    interpreter.register_definition(
        kernel, interpreter.STEPS["nextafter"].evaluate, (load(0, 0, (1,), float64), load(1, 0, (1,), float64))
    )
    assert interpret(kernel, [[1.0], [2.0]]) == [[math.nextafter(1.0, 2.0)]]


def test_registered_definitions_do_not_grow_without_bound(monkeypatch):
    monkeypatch.setattr(interpreter, "_definitions", Bounded(3))
    for number in range(10):
        interpreter.register_definition(number, abs, ())
    assert list(interpreter._definitions) == [7, 8, 9]


def test_16_bit_values_round_once_when_stored():
    kernel = elementwise((1,), (float16, float16), lambda a, b: a * b + 1.0, float16)
    # 2049 is not a float16; 1024 * 2 + 1 rounds to even.
    assert interpret(kernel, [[1024.0], [2.0]]) == [[2048.0]]
    small = elementwise((1,), (bfloat16,), lambda a: a + 2.0**-8 + 2.0**-8, bfloat16)
    assert interpret(small, [[1.0]]) == [[1.0 + 2.0**-7]]


def test_select_evaluates_both_sides_without_raising():
    x = load(0, 0, (1,), int32)
    kernel = Pointwise(
        operands((int32, 2)), outputs((int32, 2)), (), "both", (2,),
        (Store(0, 0, (1,), select(binary("equal", x, 0), coordinate(0), 7)),),
    )  # fmt: skip
    assert interpret(kernel, [[0, 5]]) == [[0, 7]]


def test_inputs_of_another_length_are_refused():
    kernel = elementwise((3,), (float32,), lambda x: x, float32)
    with pytest.raises(ValueError, match=r"\[3\] elements, the inputs \[2\]"):
        run_kernel(PythonDevice(), kernel, [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"\[3\] elements, the inputs \[\]"):
        interpret(kernel, [])


def test_assert_close_is_pytorchs():
    assert_close([1.0, math.nan, math.inf], [1.0 + 1e-6, math.nan, math.inf], float32)
    for actual, expected in (([1.0], [1.00002]), ([math.nan], [1.0]), ([math.inf], [-math.inf]), ([1.0], [math.inf])):
        with pytest.raises(AssertionError, match="1 of 1 float32 elements differ"):
            assert_close(actual, expected, float32)
    with pytest.raises(AssertionError, match="1 of 2 int32 elements differ: .1. is 2, expected 3"):
        assert_close([1, 2], [1, 3], int32)
    with pytest.raises(AssertionError, match="expected 2 elements, got 1"):
        assert_close([1], [1, 2], int32)


class Careless(PythonDevice):
    """A device that changes what it was only asked to read, and adds one to everything it returns."""

    def run(self, plan, externals, parameters):
        super().run(plan, externals, parameters)
        externals[0].data[0] ^= 1


def test_changed_operands_are_noticed():
    kernel = elementwise((2,), (float32,), lambda x: x, float32, name="copy")
    with pytest.raises(AssertionError, match="copy on python: operand 0 was changed"):
        run_kernel(Careless(), kernel, [[1.0, 2.0]])


def test_the_suite_fails_a_device_without_values():
    class Empty(PythonDevice):
        def run(self, plan, externals, parameters):
            pass

    class Suite(BackendConformance):
        def device(self):
            return Empty()

    for name in ("test_broadcasting", "test_epilogue", "test_layer_norm_with_parameters_and_weights", "test_lanes"):
        with pytest.raises(AssertionError, match="differ"):
            getattr(Suite(), name)()
    with pytest.raises(AssertionError, match="rows differ"):
        Suite().test_step_on_float32("exp")


def test_a_suite_without_a_device_says_so():
    with pytest.raises(NotImplementedError, match="must define device"):
        BackendConformance().test_broadcasting()


def test_arguments_are_only_for_definitions():
    with pytest.raises(KeyError, match="argument"):
        evaluate(argument(0, float32), (), Environment([], []))
