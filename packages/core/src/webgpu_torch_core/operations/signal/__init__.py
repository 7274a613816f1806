"""Signals: Fourier transforms, spectrograms, window functions."""
