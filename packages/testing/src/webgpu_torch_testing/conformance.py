"""The whole suite as one class."""

from __future__ import annotations

from .attention_tests import AttentionTests
from .contraction_tests import ContractionTests
from .monoid_tests import MonoidTests
from .ordering_tests import OrderingTests
from .plan_tests import PlanTests
from .pointwise_tests import PointwiseTests
from .row_tests import RowTests
from .scatter_tests import ScatterTests
from .step_tests import StepTests


class BackendConformance(
    PointwiseTests,
    RowTests,
    ContractionTests,
    OrderingTests,
    ScatterTests,
    AttentionTests,
    MonoidTests,
    PlanTests,
    StepTests,
):
    """Everything a device must do; subclass it and define ``device(self)``, returning an opened device.

    Kernels over element types that are not in ``device.dtypes`` are skipped. Expected values come from the interpreter
    and, for the interpreter's own sake, from results written out in the tests.
    """
