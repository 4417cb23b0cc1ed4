from __future__ import annotations

import asyncio
import dataclasses
import inspect
from typing import get_args, get_type_hints

from tests.generator.security.generated.gate.operations import live, open_door, show_door, sign_door
from tests.generator.security.generated.gate.security import (
    Authenticators,
    ClientCertificate,
    OperatorToken,
    SignaturePrincipal,
)
from tests.generator.security.generated.runtime import Incoming, Scheme


async def refuse(_: Incoming) -> None:
    return None


def test_an_operation_lists_its_schemes_and_listeners_as_the_document_does() -> None:
    assert show_door.OPERATION.listeners == ("join", "control")
    assert show_door.OPERATION.schemes == (
        Scheme(name="clientCertificate", field="client_certificate", problem="credential.refused"),
        Scheme(name="operatorToken", field="operator_token", problem="credential.refused", header="Authorization"),
    )
    assert live.OPERATION.listeners == ("control", "installer")


def test_several_schemes_make_the_principal_a_union() -> None:
    assert get_args(get_type_hints(show_door.Request)["principal"]) == (ClientCertificate, OperatorToken)


def test_an_operation_without_security_of_its_own_has_the_document_s() -> None:
    assert get_type_hints(open_door.Request)["principal"] is OperatorToken


def test_an_open_operation_has_no_principal() -> None:
    assert live.OPERATION.schemes == ()
    assert list(inspect.signature(live.Request).parameters) == ["trace_id"]


def test_a_principal_has_the_members_that_the_scheme_declares() -> None:
    assert ClientCertificate(join_id="j").join_id == "j"
    assert SignaturePrincipal(key_number=2).key_number == 2
    assert dataclasses.fields(OperatorToken()) == ()


def test_a_credential_header_is_told_where_there_is_one() -> None:
    (signature,) = sign_door.OPERATION.schemes
    assert signature.header == "X-Signature"


def test_there_is_one_authenticator_for_each_scheme_and_none_is_a_refusal() -> None:
    fields = [field.name for field in dataclasses.fields(Authenticators)]
    assert fields == ["operator_token", "client_certificate", "signature"]
    authenticators = Authenticators(operator_token=refuse, client_certificate=refuse, signature=refuse)
    assert asyncio.run(authenticators.signature(None)) is None  # type: ignore[arg-type]
