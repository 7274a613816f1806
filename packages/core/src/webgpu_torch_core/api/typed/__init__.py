"""Signatures of the operations; GENERATED, imported by type checkers only."""
