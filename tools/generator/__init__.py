"""Turns the documents of spec/ into generated/; the gateway, which runs what is generated, is not here."""

from tools.generator.documents import DocumentError
from tools.generator.output import Finding, TargetError, check, generate, report

__all__ = ["DocumentError", "Finding", "TargetError", "check", "generate", "report"]
