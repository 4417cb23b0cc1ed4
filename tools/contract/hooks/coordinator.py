"""What schemathesis has to know of the coordinator beyond its document: credentials, and rules across members.

Of a case only what is right in it is changed: what was made wrong stays as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid4, uuid5

import rfc8785
import schemathesis
from requests import PreparedRequest
from requests.auth import AuthBase
from schemathesis import Case, HookContext, Response
from schemathesis.auths import GLOBAL_AUTH_STORAGE
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase, negated_parameters

from handlers.coordinator import wire_time
from handlers.coordinator.signature import sign
from tools.commands import delivery
from tools.commands.event import DEMO, DEMO_NAMES
from tools.contract.hooks.shared import OPERATOR, operate, operation_id, phase, right
from tools.contract.run import KEY_VARIABLE

_OTHER: Final = "019d9079-e78a-7c31-8f02-6b1d4e9a5c77"
_TIME: Final = "2026-04-15T09:30:00.25Z"
_VISIBLE: Final = re.compile("[!-~]([ -~]*[!-~])?")
# The largest integer that RFC 8785's writer takes.
_EXACT: Final = 2**53 - 1


class Signed(AuthBase):
    """Makes a body canonical where it can be, and signs the bytes that are sent."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Sign a request whose body and headers are final; one that cannot be signed goes without."""
        body = request.body or b""
        request.body = _canonical(body if isinstance(body, bytes) else body.encode())
        request.headers["Content-Length"] = str(len(request.body))
        headers = {name: str(value).strip() for name, value in request.headers.items()}
        with contextlib.suppress(KeyError, ValueError):
            request.headers["X-Registry-Signature"] = sign(
                self._key, headers, method=str(request.method), target=request.path_url, body=request.body
            )
        return request


PRODUCER: Final = Signed(bytes.fromhex(os.environ[KEY_VARIABLE]))
GLOBAL_AUTH_STORAGE.set_from_requests(PRODUCER).apply_to(operation_id="admitEvent")
GLOBAL_AUTH_STORAGE.set_from_requests(OPERATOR).skip_for(operation_id=["admitEvent", "live", "ready"])


class _Seen:
    """What the answers so far have told."""

    run: str | None = None
    held = False


@schemathesis.hook
def before_call(_: HookContext, case: Case[Any], __: dict[str, Any]) -> None:
    """Put into a case what the document cannot say: equal members, a served trigger, a run that is there."""
    change = _CHANGES.get(operation_id(case))
    if change is not None and case.meta is not None:
        change(case)


@schemathesis.hook
def after_call(_: HookContext, case: Case[Any], response: Response) -> None:
    """Note the latest run, and whether admission was held."""
    run = response.headers.get("x-coordinator-run-id")
    if run:
        _Seen.run = run[0]
    if case.operation.path == "/v1/restore-hold" and response.status_code == 200:
        _Seen.held = True


def _admit_event(case: Case[Any]) -> None:
    _release()
    if right(case, ParameterLocation.PATH):
        case.path_parameters = {"workflow": DEMO[0], "trigger": DEMO[1]}
    renamed = phase(case) in {TestPhase.FUZZING, TestPhase.STATEFUL}
    if right(case, ParameterLocation.BODY):
        case.body = _envelope(case.body, renamed=renamed)
    wrong = {name.lower() for name, location in negated_parameters(case.meta) if location is ParameterLocation.HEADER}
    if wrong or right(case, ParameterLocation.HEADER):
        told = {f"ce-{name}": value for name, value in _texts(case.body).items()}
        told["x-registry-delivery-time"] = delivery.now()
        if renamed:
            told["idempotency-key"] = told.get("ce-id", "none")
        case.headers.update({name: told[name.lower()] for name in case.headers if name.lower() in told.keys() - wrong})


def _start_run(case: Case[Any]) -> None:
    _release()
    if right(case, ParameterLocation.BODY):
        given: Any = case.body
        case_id = _text(given["input"])
        case.body = {"flow": DEMO[0], "input": {"caseId": case_id}}
        if right(case, ParameterLocation.HEADER) and phase(case) is TestPhase.STATEFUL:
            # A scenario that is tried again has to go as it went before, or the phase ends there without a word: what
            # is sent tells by itself whether it is new or a repeat.
            case.headers["Idempotency-Key"] = key = str(uuid4())
            if len(case_id) % 2:
                operate("POST", "/v1/runs", case.body, {"Idempotency-Key": key})


def _of_a_run(case: Case[Any]) -> None:
    if _may_name(case) and _Seen.run:
        case.path_parameters = {"run": _Seen.run}


def _retry_same(case: Case[Any]) -> None:
    _of_one_in_doubt(case, leave=0)


def _reconcile(case: Case[Any]) -> None:
    # A run that was reconciled is in doubt no more: one is left for what else can be done about it.
    _of_one_in_doubt(case, leave=1)


def _of_one_in_doubt(case: Case[Any], *, leave: int) -> None:
    _of_a_run(case)
    if not _may_name(case):
        return
    _release()
    for run in operate("GET", "/v1/runs?state=uncertain&limit=2")["runs"][leave:]:
        case.path_parameters = {"run": run["runId"]}


def _may_name(case: Case[Any]) -> bool:
    return right(case, ParameterLocation.PATH) and phase(case) is TestPhase.FUZZING


def _release_hold(case: Case[Any]) -> None:
    if right(case, ParameterLocation.BODY):
        operate("POST", "/v1/restore-hold", {"reason": "contract"})
        _Seen.held = True


_CHANGES: Final[dict[str, Callable[[Case[Any]], None]]] = {
    "admitEvent": _admit_event,
    "startRun": _start_run,
    "getRun": _of_a_run,
    "inspectRun": _of_a_run,
    "cancelRun": _of_a_run,
    "retrySame": _retry_same,
    "reconcile": _reconcile,
    "releaseRestoreHold": _release_hold,
    "releaseAdmissionHold": _release_hold,
}


def _release() -> None:
    """Let admission go on after a hold that another case has set."""
    if not _Seen.held:
        return
    vouched = {"recoveryReference": "contract", "admissionHistoryComplete": True, "priorDeploymentFenced": True}
    operate("POST", "/v1/release-restore-hold", {"reason": "contract"})
    operate("POST", "/v1/release-admission-hold", vouched)
    _Seen.held = False


def _envelope(body: Any, *, renamed: bool) -> dict[str, Any]:
    """Return an event that the demo's trigger takes and that keeps what it can of a valid one.

    Where it is `renamed`, its id follows from its content, so that another content is another event.
    """
    own, causation = body["id"], dict(body["causation"])
    if renamed:
        own = str(uuid5(NAMESPACE_OID, json.dumps(body, sort_keys=True)))
    if causation["hop"] == 0:
        causation["root"] = own
    else:
        causation |= {name: _OTHER for name in ("parent", "root") if causation[name].lower() == own.lower()}
    time = body["time"] if wire_time.parse(body["time"], 3) is not None else _TIME
    data = {"caseId": _text(body["data"]), "value": _fitting(body["data"])}
    return {**body, **DEMO_NAMES, "id": own, "causation": causation, "time": time, "data": data}


def _texts(body: Any) -> dict[str, str]:
    """Return the members of an envelope that have a header, as far as a header can carry them."""
    if not isinstance(body, dict):
        return {}
    members = {name: body.get(name) for name in ("id", "source", "type", "time", "dataschema")}
    return {name: text for name, text in members.items() if isinstance(text, str) and _VISIBLE.fullmatch(text)}


def _text(value: Any) -> str:
    return json.dumps(value)[:64]


def _fitting(value: Any) -> Any:
    """Return a value of which RFC 8785 can write every number."""
    if isinstance(value, dict):
        return {name: _fitting(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_fitting(each) for each in value]
    return str(value) if isinstance(value, int | float) and abs(value) > _EXACT else value


def _canonical(body: bytes) -> bytes:
    try:
        return rfc8785.dumps(json.loads(body))
    except (ValueError, RecursionError, rfc8785.CanonicalizationError):
        return body
