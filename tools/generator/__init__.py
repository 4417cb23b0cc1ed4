"""Turns the documents of spec/ into generated/; the gateway, which runs what is generated, is not here."""

from tools.generator.documents import DocumentError
from tools.generator.output import Finding, TargetError, check, generate, report
from tools.generator.stubs import Stub, StubError, stub

__all__ = ["DocumentError", "Finding", "Stub", "StubError", "TargetError", "check", "generate", "report", "stub"]
