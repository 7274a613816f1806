"""Matrix units in plain WGSL, so that kernels for them run on any adapter: a thread keeps its share of each sum.

What is loaded is only told where it lies: blocks in workgroup memory stay as they are until products have been made of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import codegen_harness
import pytest
import torch
from codegen_harness import Harness
from test_contraction_matrix import computing
from webgpu_torch_backend_wgpu.gpu.interface import MATRIX_HEAD, MatrixUnit
from webgpu_torch_backend_wgpu.program import Capabilities, Pass, Program
from webgpu_torch_core.ir.kernels import Kernel

_LOAD = re.compile(r"subgroupMatrixLoad<subgroup_matrix_(left|right)<f16, \d+, \d+>, (row|col)_major>\(&blocks, ")
_STORE = re.compile(r"subgroupMatrixStore<row_major>\(&blocks, ")
_RESULT = re.compile(r"subgroup_matrix_result<f32, \d+, \d+>")
_MULTIPLY = re.compile(r"subgroupMatrixMultiplyAccumulate\(")
_HALVES = "bitcast<u32>(vec2<f16>("
_WORD_OF = "\nfn word_of(halves: vec2<f16>) -> u32 { return pack2x16float(vec2<f32>(halves)); }\n"
_TEXT = """
alias Share = array<f32, {share}>;
var<private> emulated_lane: u32;
// No compiler knows it to be 0: loops are not unrolled so.
var<private> emulated_nothing: u32;
struct Matrix {{ at: u32, down: u32, across: u32 }}
fn load_row(at: u32, pitch: u32) -> Matrix {{ return Matrix(at * 8u, pitch * 8u, 1u); }}
fn load_col(at: u32, pitch: u32) -> Matrix {{ return Matrix(at * 8u, 1u, pitch * 8u); }}
fn half_at(place: u32) -> f32 {{ return unpack2x16float(blocks[place / 8u][place % 8u / 2u])[place % 2u]; }}
fn multiply_matrices(left: Matrix, right: Matrix, sums: Share) -> Share {{
  var found = sums;
  for (var number = 0u; number < {share}u + emulated_nothing; number += 1u) {{
    let element = number * {threads}u + emulated_lane;
    let row = left.at + element / {n}u * left.down;
    let column = right.at + element % {n}u * right.across;
    var total = 0.0f;
    for (var deep = 0u; deep < {k}u + emulated_nothing; deep += 1u) {{
      total += half_at(row + deep * left.across) * half_at(column + deep * right.down);
    }}
    found[number] += total;
  }}
  return found;
}}
fn store_matrix(at: u32, matrix: Share, pitch: u32) {{
  var given = matrix;
  for (var number = 0u; number < {share}u + emulated_nothing; number += 1u) {{
    let element = number * {threads}u + emulated_lane;
    let place = (at + element / {n}u * pitch) * 4u + element % {n}u;
    blocks[place / 4u][place % 4u] = bitcast<u32>(given[number]);
  }}
}}
"""


_Form = TypeVar("_Form", bound=Kernel)
_Plan = TypeVar("_Plan")


@dataclass
class Emulation:
    """Matrix units of an adapter that has none."""

    unit: MatrixUnit

    def capabilities(self, given: Capabilities) -> Capabilities:
        """Return an adapter's capabilities with the units, and what the kernels for them need besides."""
        facts = given.facts.replace(packs_halves=True, keeps_rests=True, products=1e12)
        return given.replace(matrix_units=(self.unit,), facts=facts)

    def program(self, given: Program) -> Program:
        """Return a program whose passes spell out what units would do."""
        return Program(tuple([self._pass(each) for each in given.passes]), given.scratch)

    def _pass(self, given: Pass) -> Pass:
        # The compiler of an adapter without units does not read two halves as a word.
        if _HALVES in given.source:
            source = given.source.replace(_HALVES, "word_of(vec2<f16>(") + _WORD_OF
            given = Pass(given.name, source, given.workgroups, given.bindings, given.sizes)
        if MATRIX_HEAD not in given.source:
            return given
        unit = self.unit
        text = _LOAD.sub(r"load_\2(", given.source.replace(MATRIX_HEAD, ""))
        text = _RESULT.sub("Share", _MULTIPLY.sub("multiply_matrices(", _STORE.sub("store_matrix(", text)))
        first = text.index("{", text.index("fn main(")) + 1
        text = f"{text[:first]}\n  emulated_lane = thread % {unit.threads}u;\n  emulated_nothing = group.x >> 31u;{text[first:]}"
        text += _TEXT.format(share=unit.m * unit.n // unit.threads, threads=unit.threads, n=unit.n, k=unit.k)
        assert "ubgroupMatrix" not in text and "subgroup_matrix" not in text
        return Pass(given.name, text, given.workgroups, given.bindings, given.sizes)


@dataclass(frozen=True)
class Adapter:
    """Where kernels run: on matrix units, or on what every adapter has in their place."""

    harness: Harness
    capabilities: Capabilities
    emulation: Emulation | None

    def spelled(self, given: Program) -> Program:
        """Return a program as the adapter runs it."""
        return given if self.emulation is None else self.emulation.program(given)

    def compute(
        self,
        generate: Callable[[_Form, Capabilities, _Plan], Program],
        kernel: _Form,
        operands: list[torch.Tensor],
        plan: _Plan,
    ) -> torch.Tensor:
        """Return the one result of a kernel whose program is generated by a plan."""

        def make(kernel: _Form, _: Capabilities) -> Program:
            return self.spelled(generate(kernel, self.capabilities, plan))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(codegen_harness, "generate", make)
            (got,) = self.harness.run(kernel, operands)
        return got


_Adapter = TypeVar("_Adapter", bound=Adapter)
#: where tests of kernels for units run
PLACES = "emulated", "units"


@cache
def opened(kind: type[_Adapter], place: str, size: int) -> _Adapter:
    """Return an adapter, with units that are emulated, of matrices of so many rows, or with its own; leaves a test out without."""
    if place == "units":
        found = computing()
        facts = found.native.facts.replace(packs_halves=True, keeps_rests=True, products=5e14)
        return kind(found, found.native.replace(facts=facts), None)
    found = codegen_harness.harness()
    threads = found.native.subgroup_size
    if not threads or threads % 8 or not found.native.half:
        pytest.skip("the adapter has no subgroups of one size, or no halves")
    emulation = Emulation(MatrixUnit("f16", "f32", size, size, size, threads))
    return kind(found, emulation.capabilities(found.native), emulation)
