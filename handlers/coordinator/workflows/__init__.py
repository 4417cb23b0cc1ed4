"""Workflows: the package format, its check, its compiled form, and the active package that admission asks."""
