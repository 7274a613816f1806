"""Programs that follow from another size's are those that would be generated."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from contraction_cases import product
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_codegen import random_pointwise
from test_codegen_rows import random_rows
from webgpu_torch_backend_wgpu.codegen import generate, resizing
from webgpu_torch_backend_wgpu.codegen.resizing import Generator, resized
from webgpu_torch_backend_wgpu.codegen.traced import Trace
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_backend_wgpu.gpu.checking import CheckingGpu
from webgpu_torch_backend_wgpu.limits import capabilities, wanted_features
from webgpu_torch_backend_wgpu.program import Capabilities, Program
from webgpu_torch_core.ir.dtypes import float16, float32
from webgpu_torch_core.ir.expression import binary, coordinate, load, load_at, select
from webgpu_torch_core.ir.kernels import Kernel, Operand, Output, Pointwise, Reduction, RowProgram, Store
from webgpu_torch_core.ir.monoids import monoid
from webgpu_torch_testing.attention_tests import attention, derivative

sys.path.insert(0, str(Path(__file__).parent / "golden"))
from followed import told
from profiles import PROFILES

#: sizes that kernels treat differently: whole groups and not, powers of two, more than a workgroup, a unit or a device has
SIZES = [*range(2, 10), 12, 16, 31, 33, 64, 100, 255, 256, 257, 1000, 1024, 4096, 5000, 1 << 15, 100003, 1 << 20]


def adapter_of(profile: str) -> Capabilities:
    """Return what kernels may use on a made-up adapter."""
    adapter = PROFILES[profile]
    return capabilities(adapter, CheckingGpu(adapter.limits, wanted_features(adapter)), TYPICAL[adapter.kind])


def drawn(form: str, seed: int) -> Kernel:
    """Return some kernel of a form."""
    dice = random.Random(seed)
    if form == "contraction":
        sizes = [dice.choice([1, 2, 4, 7, 16, 40]) for _ in range(4)]
        layouts = dice.choice("rc"), dice.choice("rc")
        return product(*sizes, layouts=layouts, shared=dice.random() < 0.3)[0]  # type: ignore[arg-type]
    if form == "attention":
        rows, columns, depth, width = (dice.choice([1, 2, 4, 7, 16, 40]) for _ in range(4))
        if dice.random() < 0.3:
            return derivative(rows, columns, depth, width)
        return attention(
            rows,
            columns,
            depth,
            width,
            dice.choice([float32, float16]),
            dice.choice([1, 3]),
            turned=dice.random() < 0.3,
        )
    return random_rows(seed)[0] if form == "rows" else random_pointwise(seed)[0]


def outcome(make: object, kernel: Kernel, adapter: Capabilities) -> object:
    """Return all that a program says, or the class of what it raises."""
    try:
        program: Program = make(kernel, adapter)  # type: ignore[operator]
    except Exception as error:
        return type(error)
    return told(program)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(("pointwise", "rows", "contraction", "attention")), st.integers(0, 10000), st.sampled_from(sorted(PROFILES)),
    st.lists(st.randoms(use_true_random=False), min_size=3, max_size=6),
)  # fmt: skip
def test_programs_are_those_that_would_be_generated(
    form: str, seed: int, profile: str, resizings: list[random.Random]
) -> None:
    kernel, adapter, generator = drawn(form, seed), adapter_of(profile), Generator()
    for dice in resizings:
        sizes: dict[int, int] = {}
        # What is equal stays equal more often than not, as dimensions and strides are.
        chosen = resized(
            kernel,
            lambda size: size if size < 2 else sizes.setdefault(size, dice.choice(SIZES)),  # noqa: B023
        )
        assert outcome(generator.generate, chosen, adapter) == outcome(generate, chosen, adapter)


@pytest.mark.slow_on("default", "compatibility", "llvmpipe")
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_kernels_of_programs_are_those_that_would_be_generated(profile: str) -> None:
    # In a process of its own: what it runs takes the place of the WebGPU backend.
    script = Path(__file__).parent / "golden" / "followed.py"
    found = subprocess.run([sys.executable, str(script), profile], capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{found.stdout[-5000:]}{found.stderr[-5000:]}"


def relu_sum(rows: int, columns: int) -> RowProgram:
    value = load(0, 0, (columns, 1), float32)
    return RowProgram(
        (Operand(float32, rows * columns),), (Output(float32, rows, None),), (), "sum", (rows,), (columns,),
        (Reduction(monoid("sum", float32), value * value),), (), (),
    )  # fmt: skip


def scaled(rows: int, columns: int) -> Pointwise:
    count = rows * columns
    value = load(0, 0, (1, rows), float32) * 2.0
    return Pointwise(
        (Operand(float32, count),), (Output(float32, count, None),), (), "scale", (rows, columns),
        (Store(0, 0, (columns, 1), value),),
    )  # fmt: skip


def appended(rows: int, columns: int) -> Pointwise:
    """Return what puts one row behind others: where these end stands in what is computed."""
    row = coordinate(0)
    before = load_at(0, binary("minimum", row, rows - 2) * columns + coordinate(1), float32)
    value = select(row < rows - 1, before, load(1, 0, (0, 1), float32))
    count = rows * columns
    return Pointwise(
        (Operand(float32, count - columns), Operand(float32, columns)), (Output(float32, count, None),), (), "cat",
        (rows, columns), (Store(0, 0, (columns, 1), value),),
    )  # fmt: skip


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_few_of_many_sizes_are_generated(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter, generator, count = adapter_of(profile), Generator(), [0]

    def counted(kernel: Kernel, capabilities: Capabilities) -> Program:
        count[0] += 1
        return generate(kernel, capabilities)

    monkeypatch.setattr(resizing, "generate", counted)
    kernels = [
        make(17 + number, columns)
        for make in (relu_sum, scaled, appended)
        for columns in (33, 36)
        for number in range(100)
    ]
    for each in kernels:
        assert outcome(generator.generate, each, adapter) == outcome(generate, each, adapter)
    assert count[0] <= len(kernels) // 10


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_few_of_many_products_are_generated(profile: str) -> None:
    """Products of many lengths are followed once or twice for each way in which they are computed."""
    adapter, generator = adapter_of(profile), Generator()
    kernels = [product(1, 64 + 12 * number, 256, 512)[0] for number in range(60)]
    for each in kernels:
        assert outcome(generator.generate, each, adapter) == outcome(generate, each, adapter)
    assert generator.traced <= 12
    assert generator.filled > 2 * len(kernels) // 3


@settings(deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=4), st.randoms(use_true_random=False))
@example([3], random.Random(0))
def test_replays_do_what_would_be_done(values: list[int], dice: random.Random) -> None:
    seed = dice.random()

    def compute(given: list[object], dice: random.Random) -> list[object]:
        numbers: list[object] = [*given, 3, 2.5]
        for _ in range(12):
            left, right = dice.choice(numbers), dice.choice(numbers)
            step = dice.choice("+ - * // / % < == max range bool text bits".split())
            if step in ("//", "/", "%") and not right:
                continue
            if step == "range":
                numbers += list(range(abs(dice.choice(given)) % 5))  # type: ignore[arg-type]
            elif step == "bits":
                numbers.append(abs(dice.choice(given)).bit_length())  # type: ignore[attr-defined, arg-type]
            else:
                if step == "*":
                    right = dice.choice(given)
                numbers.append(eval(EXPRESSIONS.get(step, f"left {step} right"), {"left": left, "right": right}))
        return numbers

    trace = Trace()
    places = [trace.place(each) for each in compute([trace.leaf(each) for each in values], random.Random(seed))]  # type: ignore[arg-type]
    trace.close()
    for _ in range(4):
        others = [dice.choice([each, each, dice.randint(-50, 50)]) for each in values]
        found = trace.replay(others)
        if found is not None:
            assert list(map(str, map(found.__getitem__, places))) == list(
                map(str, compute(list(others), random.Random(seed)))
            )
    assert trace.replay(values) is not None


EXPRESSIONS = {"max": "max(left, right)", "bool": "5 if left else 6", "text": "len(f'{left}')"}
