"""What the build of the documentation makes itself: the reference, formulas, and tables that load their rows."""
