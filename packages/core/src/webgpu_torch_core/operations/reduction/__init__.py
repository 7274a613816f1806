"""Reductions: sums and extremes over dimensions, moments, statistics, counts."""
