"""Stable Diffusion by part: schedulers, the networks, and the pipelines that join them."""
