"""What schemathesis has to know of the join beyond its document: tokens, a key and its certificate, turns and plans.

Every node here has the same key, so that one certificate opens each join. Of a case only what is right in it is
changed: what was made wrong stays as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import schemathesis
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from requests import PreparedRequest
from requests.auth import AuthBase
from schemathesis import Case, HookContext, Response
from schemathesis.auths import GLOBAL_AUTH_STORAGE
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from tools.contract.hooks.shared import BESIDE, LISTENERS, OPERATOR, operate, operation_id, phase, right
from tools.contract.run import AUTHORITY_VARIABLE

AUTHORITY: Final = os.environ[AUTHORITY_VARIABLE]
REGISTRATIONS: Final = "/v1/join/registrations"
PATIENCE_SECONDS: Final = 10

_KEY: Final = ec.generate_private_key(ec.SECP256R1())
_CSR: Final = (
    x509.CertificateSigningRequestBuilder()
    .subject_name(x509.Name([]))
    .sign(_KEY, hashes.SHA256())
    .public_bytes(Encoding.PEM)
    .decode()
)


class Newcomer(AuthBase):
    """Brings a join token, and mints another one when that is spent."""

    def __init__(self) -> None:
        self._secret = ""

    @property
    def secret(self) -> str:
        """The secret of a token that is good for another registration."""
        if not self._secret:
            self._secret = operate("POST", "/v1/join/tokens", {})["token"].partition(".")[0]
        return self._secret

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Put the token into a request."""
        request.headers["Authorization"] = f"Bearer {self.secret}"
        return request

    def spend(self) -> None:
        """Forget a token that a registration was made with."""
        self._secret = ""


NEWCOMER: Final = Newcomer()
GLOBAL_AUTH_STORAGE.set_from_requests(NEWCOMER).apply_to(operation_id="register")
GLOBAL_AUTH_STORAGE.set_from_requests(OPERATOR).skip_for(
    operation_id=["register", "renewCertificate", "reportJoinEvents"]
)


class _Seen:
    """What the answers so far have told."""

    turn: str | None = None
    scenarios: Final[set[str]] = set()


@schemathesis.hook
def before_call(_: HookContext, case: Case[Any], kwargs: dict[str, Any]) -> None:
    """Put into a case what the document cannot say: a join that is there, a request of our key, its steps."""
    name = operation_id(case)
    if name in _JOINS and phase(case) is not TestPhase.STATEFUL and right(case, ParameterLocation.PATH):
        case.path_parameters = {"joinId": _JOINS[name]()}
    if name in _BODIES and isinstance(case.body, dict) and right(case, ParameterLocation.BODY):
        case.body = _BODIES[name](case.body)
    if phase(case) is TestPhase.STATEFUL:
        _play(case)
    if name in _NODES and str(case.operation.base_url).startswith(LISTENERS["join"]):
        kwargs["cert"] = certificate()


@schemathesis.hook
def after_call(_: HookContext, case: Case[Any], response: Response) -> None:
    """Note that a token is spent, or that a turn may be over."""
    name = operation_id(case)
    if name == "register" and response.status_code < 300:
        NEWCOMER.spend()
        if phase(case) is TestPhase.STATEFUL:
            _Seen.scenarios.add(response.json()["joinId"])
    ended = response.status_code == 409 or "failed" in str(case.body)
    if name == "rejectNodeJoin" or (name == "reportJoinEvents" and ended):
        _Seen.turn = None


@cache
def certificate() -> str:
    """Return the file of a certificate for our key, together with the key."""
    file = Path("node.pem").absolute()
    key = _KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    file.write_text(registered({})["certificate"] + key)
    NEWCOMER.spend()
    return str(file)


def registered(members: dict[str, Any]) -> Any:
    """Register a node beside the cases, and return the answer; its token goes with the next case, too."""
    body = {"name": str(uuid4()), "role": "compute", "address": "127.0.0.1", "csr": _CSR, **members}
    answer = BESIDE.post(f"{LISTENERS['join']}{REGISTRATIONS}", json=body, auth=NEWCOMER, verify=AUTHORITY)
    answer.raise_for_status()
    return answer.json()


def pending() -> str:
    """Return a join that waits for an operator."""
    join_id = _first("pending")
    if join_id is None:
        join_id = str(registered({})["joinId"])
        NEWCOMER.spend()
    return join_id


def in_turn() -> str:
    """Return the join that is in its turn; another one's comes where there is none."""
    if _Seen.turn is None:
        _Seen.turn = _first("joining")
    if _Seen.turn is None:
        _Seen.turn = pending()
        operate("POST", f"{REGISTRATIONS}/{_Seen.turn}/approve")
    return _Seen.turn


def _first(state: str) -> str | None:
    found = operate("GET", f"{REGISTRATIONS}?state={state}&limit=1")["registrations"]
    return str(found[0]["joinId"]) if found else None


def free_the_turn(join_id: str) -> None:
    """End every join that is in its turn or waits for it, but for one, and wait until the turn is free."""
    _Seen.turn = None
    for state in ("approved", "joining"):
        for other in operate("GET", f"{REGISTRATIONS}?state={state}")["registrations"]:
            if other["joinId"] != join_id:
                operate("POST", f"{REGISTRATIONS}/{other['joinId']}/reject", {"reason": "Another is to have the turn."})
                _wait_until_out(other["joinId"])


def _wait_until_out(join_id: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        rafts = operate("GET", f"{REGISTRATIONS}/{join_id}")["rafts"]
        if all(raft["state"] in {"absent", "removed"} for raft in rafts):
            return
        time.sleep(0.02)
    raise TimeoutError(f"the join {join_id} is not out of its rafts")


def _token_order(body: dict[str, Any]) -> dict[str, Any]:
    # JSON Schema takes 60.0 for an integer, the server does not.
    return {name: int(value) if name == "ttlSeconds" else value for name, value in body.items()}


def _with_csr(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "csr": _CSR}


def _report(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "events": [_event(event) for event in body["events"]]}


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event at a step of the plan, and at a time that there is in UTC."""
    changed = dict(event)
    if "step" in changed:
        changed["step"] = _PLAN[len(changed["step"]) % len(_PLAN)]
    if "at" in changed and not "0002" < changed["at"] < "9999":
        del changed["at"]
    return changed


def _play(case: Case[Any]) -> None:
    """Make a case of a scenario independent of what other scenarios have left.

    A scenario that is tried again has to go as it went before, or the phase ends there without a word.
    """
    name = operation_id(case)
    if name in _JOINS and right(case, ParameterLocation.PATH):
        _play_join(case)
    if name in _SCENES and isinstance(case.body, dict) and right(case, ParameterLocation.BODY):
        case.body = _SCENES[name](case.body)
    if name == "listRegistrations" and right(case, ParameterLocation.QUERY):
        case.query.pop("state", None)


def _play_join(case: Case[Any]) -> None:
    """Put another join in the place of one that a list had, and give the turn to one that is approved."""
    if case.path_parameters["joinId"] not in _Seen.scenarios:
        case.path_parameters = {"joinId": registered({})["joinId"]}
        NEWCOMER.spend()
    if operation_id(case) == "approveNodeJoin":
        free_the_turn(str(case.path_parameters["joinId"]))


def _played_registration(body: dict[str, Any]) -> dict[str, Any]:
    """Return a registration of a node that no other has the name of; it may have been made before."""
    again = len(body["name"]) % 2 == 0
    body = {**body, "name": str(uuid4())}
    if again:
        registered(body)
    return body


def _played_approval(body: dict[str, Any]) -> dict[str, Any]:
    """Return an approval by an address that no other join has."""
    return {"address": f"{uuid4()}.example"} if "address" in body else {}


def _played_report(body: dict[str, Any]) -> dict[str, Any]:
    """Return a report without the step after which the server ends a join by itself, at some time."""
    return {**body, "events": [event for event in body["events"] if event.get("step") != _PLAN[-1]]}


_NODES: Final = frozenset({"renewCertificate", "getRegistration", "reportJoinEvents"})
_PLAN: Final = ("raft:control", "services", "complete")
_JOINS: Final[dict[str, Callable[[], str]]] = {
    "renewCertificate": in_turn,
    "getRegistration": in_turn,
    "approveNodeJoin": pending,
    "rejectNodeJoin": pending,
    "getJoinLog": in_turn,
    "reportJoinEvents": in_turn,
}
_BODIES: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "mintJoinToken": _token_order,
    "register": _with_csr,
    "renewCertificate": _with_csr,
    "reportJoinEvents": _report,
}
_SCENES: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "register": _played_registration,
    "approveNodeJoin": _played_approval,
    "reportJoinEvents": _played_report,
}
