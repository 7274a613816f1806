"""Types of ``out``: what PyTorch converts a result into is taken and has its values, and what it refuses is refused."""

from __future__ import annotations

import random
import re
import warnings
from itertools import islice
from typing import Any

import pytest
import webgpu_torch as ours
from database import Missing, entries, our_function, torch
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SEED, Sample
from translation import Untranslatable, to_torch

KINDS = ("float32", "float64", "float16", "int64", "uint8", "bool", "complex64")
#: operations that end otherwise than PyTorch's, and why
OTHERWISE = {"logsumexp": "PyTorch drops imaginary parts before it takes the logarithm, where out is real"}
#: operations whose results are not compared, and why
UNCOMPARED = re.compile(
    r"all$"  # PyTorch's uint8 is not what its bool is
    r"|fft\.ihfft"  # PyTorch writes nothing
    r"|bernoulli|normal|multinomial|empty"  # other numbers each time
    r"|.*eig|svd|linalg\.(svd|qr)"  # in any order, with any sign
)
NAMES = sorted(
    name for name, each in entries().items() if getattr(each, "supports_out", False) and name not in OTHERWISE
)


def refused(call: Any) -> Exception | None:
    try:
        call()
    except (RuntimeError, TypeError) as error:
        return error
    return None


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NAMES), st.sampled_from(["float32", "int64", "complex64", "bool"]), st.integers(0, 9))
def test_some(name: str, kind: str, number: int) -> None:
    entry = entries()[name]
    if getattr(torch, kind) not in entry.supported_dtypes("cpu"):
        return
    torch.manual_seed(SEED)
    random.seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function = our_function(entry)
            samples = list(islice(entry.sample_inputs_func(entry, "cpu", getattr(torch, kind), False), 10))
            sample = Sample(entry, samples[number % len(samples)], "cpu")
            sample.prepare()
            expected = entry.op(*sample.arguments, **sample.sample.kwargs)
        except (Missing, Untranslatable, RuntimeError, TypeError, ZeroDivisionError):
            return
        if not isinstance(expected, torch.Tensor):
            return
        for each in KINDS:
            theirs = torch.zeros(expected.shape, dtype=getattr(torch, each))
            found = ours.zeros(tuple(expected.shape), dtype=getattr(ours, each))
            refusal = refused(lambda theirs=theirs: entry.op(*sample.arguments, **sample.sample.kwargs, out=theirs))
            error = refused(
                lambda found=found: sample.actual(lambda *given, **options: function(*given, **options, out=found))
            )
            assert (error is None) == (refusal is None), (each, error, refusal)
            if error is None and not UNCOMPARED.match(name):
                torch.testing.assert_close(to_torch(found), theirs, rtol=2e-2, atol=2e-2, equal_nan=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_complex_out_makes_nothing_complex(kind: str) -> None:
    x = ours.rand(5, 5, 5)
    found = refused(lambda: ours.logcumsumexp(x, 0, out=ours.zeros(5, 5, 5, dtype=getattr(ours, kind))))
    assert (found is None) == (kind == "float32")
