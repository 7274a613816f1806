"""The line search of L-BFGS: steps that meet the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable

from webgpu_torch_core import Tensor

#: how far along, loss, gradient, slope
Trial = tuple[float, float, Tensor, float]


def cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: tuple[float, float] | None = None
) -> float:
    """Return where the cubic through two points with these slopes is least, within bounds (Nocedal and Wright, 3.59)."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if x1 <= x2:
        least = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        least = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(least, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    direction: Tensor,
    size: float,
    start: tuple[float, Tensor],
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    most: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Return loss, gradient and size of a step that decreases the loss enough and flattens the slope enough.

    First a bracket is found by growing steps, then narrowed by cubic interpolation (Nocedal and Wright, "Numerical
    Optimization", algorithms 3.5 and 3.6).

    Args:
        evaluate: loss and gradient at a distance.
        direction, size: where to go, and the first distance to try.
        start, slope: loss and gradient at distance 0, and the slope there.
        c1, c2: of the two conditions.
        tolerance_change: the narrowest bracket.
        most: how many evaluations at most.
    """
    longest = float(direction.abs().max())

    def trial(distance: float) -> Trial:
        loss, gradient = evaluate(distance)
        return distance, loss, gradient.clone(), float(gradient.dot(direction))

    def decreases(each: Trial) -> bool:
        return each[1] <= start[0] + c1 * each[0] * slope

    origin: Trial = (0.0, start[0], start[1].clone(), slope)
    previous, current = origin, trial(size)
    evaluations, iterations, done = 1, 0, False
    bracket: list[Trial] = []
    while iterations < most:
        if not decreases(current) or (iterations > 1 and current[1] >= previous[1]):
            bracket = [previous, current]
            break
        if abs(current[3]) <= -c2 * slope:
            bracket, done = [current], True
            break
        if current[3] >= 0:
            bracket = [previous, current]
            break
        step = current[0]
        bounds = (step + 0.01 * (step - previous[0]), step * 10)
        following = cubic_minimum(previous[0], previous[1], previous[3], step, current[1], current[3], bounds)
        previous, current = current, trial(following)
        evaluations += 1
        iterations += 1
    if iterations == most:
        bracket = [origin, current]
    if not done:
        bracket, used = _narrow(bracket, trial, decreases, slope, c2, longest, tolerance_change, most - iterations)
        evaluations += used
    best = bracket[0] if len(bracket) == 1 or bracket[0][1] <= bracket[1][1] else bracket[1]
    return best[1], best[2], best[0], evaluations


def _narrow(
    bracket: list[Trial],
    trial: Callable[[float], Trial],
    decreases: Callable[[Trial], bool],
    slope: float,
    c2: float,
    longest: float,
    tolerance_change: float,
    most: int,
) -> tuple[list[Trial], int]:
    """Return a narrower bracket, or the one step that meets the conditions, and the evaluations it took."""
    insufficient, used = False, 0
    low, high = (0, 1) if bracket[0][1] <= bracket[-1][1] else (1, 0)
    while used < most:
        ends = sorted((bracket[0][0], bracket[1][0]))
        if (ends[1] - ends[0]) * longest < tolerance_change:
            break
        (x1, f1, _, g1), (x2, f2, _, g2) = bracket
        size = cubic_minimum(x1, f1, g1, x2, f2, g2)
        # A trial too near an end makes little progress: the second time, keep away from it.
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - size, size - ends[0]) < margin:
            if insufficient or size >= ends[1] or size <= ends[0]:
                size = ends[1] - margin if abs(size - ends[1]) < abs(size - ends[0]) else ends[0] + margin
                insufficient = False
            else:
                insufficient = True
        else:
            insufficient = False
        current = trial(size)
        used += 1
        if not decreases(current) or current[1] >= bracket[low][1]:
            bracket[high] = current
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
            continue
        if abs(current[3]) <= -c2 * slope:
            return [current], used
        if current[3] * (bracket[high][0] - bracket[low][0]) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = current
    return bracket, used
