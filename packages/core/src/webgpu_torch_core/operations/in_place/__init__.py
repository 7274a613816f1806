"""Changing tensors in place: writing into storages and views, the methods and functions that do."""
