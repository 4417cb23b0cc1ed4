"""Writes security.py: what each security scheme tells a handler, and what has to authenticate it."""

from __future__ import annotations

from tools.generator.contracts import ApiContract, SchemeContract
from tools.generator.writing.layout import docstring, fields, frozen, module


def write_security(api: ApiContract) -> str:
    """Return security.py: a principal for each scheme, and Authenticators with a field for each."""
    classes = [*(_principal(scheme) for scheme in api.schemes), _authenticators(api)]
    text = f"Who {api.title} lets in."
    symbols = {"Authenticator": "..runtime"}
    return module(api.document.source, text, "\n" + "\n\n".join(classes), symbols)


def _principal(scheme: SchemeContract) -> str:
    doc = docstring(scheme.description, "    ")
    members = fields(scheme.principal)
    return frozen(scheme.class_name) + doc + (f"\n{members}" if members else "")


def _authenticators(api: ApiContract) -> str:
    doc = docstring("What authenticates each scheme; None is a refusal.", "    ")
    members = "".join(f"    {scheme.field}: Authenticator[{scheme.class_name}]\n" for scheme in api.schemes)
    return frozen("Authenticators") + doc + (f"\n{members}" if members else "")
