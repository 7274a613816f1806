"""Captured functions as folders of static files."""
