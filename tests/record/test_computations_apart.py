"""Computations that have nothing to do with each other are told apart by what their entries touch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from webgpu_torch_core.record.plans import _apart
from webgpu_torch_core.record.tape import Entry


@given(st.lists(st.tuples(st.lists(st.integers(0, 40), max_size=3), st.integers(1, 2)), max_size=40))
def test_entries_are_together_that_have_slots_in_common(drawn: list[tuple[list[int], int]]) -> None:
    entries: list[Entry] = []
    made = 100
    for operands, outputs in drawn:
        kernel = cast("Any", SimpleNamespace(outputs=(None,) * outputs))
        # Some slots came in, and what was made before is read again.
        slots = tuple(each if each % 2 or 100 + each >= made else 100 + each for each in operands)
        entries.append(Entry(kernel, slots, made, ()))
        made += outputs
    found = _apart(entries)
    assert sorted(entry.output for part in found for entry in part) == [entry.output for entry in entries]

    def touched(entry: Entry) -> set[int]:
        return {*entry.operands, *range(entry.output, entry.output + len(entry.kernel.outputs))}

    parts = [set().union(*map(touched, part)) for part in found]
    # Parts have no slot in common, and none could be two.
    assert sum(map(len, parts)) == len(set().union(*parts))
    for part in found:
        reached, left = touched(part[0]), part[1:]
        while left:
            joined = [entry for entry in left if touched(entry) & reached]
            assert joined
            reached |= set().union(*map(touched, joined))
            left = [entry for entry in left if entry not in joined]
