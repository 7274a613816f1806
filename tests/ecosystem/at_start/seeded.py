"""pytest plugin: every test begins with the same random numbers, so that chance fails it on both sides or on none."""

from __future__ import annotations

import random

import numpy
import torch


def pytest_runtest_setup() -> None:
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
