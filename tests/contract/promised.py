"""What the three contracts promise, in their own words: a document that was weakened is found by what is missing.

Statuses and codes are those of the contracts' pages, which `spec/` was written from, and not of `spec/`. The pages give
no titles: those are this project's, once here and once in `spec/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.support.contract import ApiName, Documented
from tests.support.wire import Answer

ANSWERS: Final[Mapping[tuple[ApiName, str], Mapping[int, str]]] = {
    ("coordinator", "admitEvent"): {
        204: "",
        400: "event.invalid input.invalid request.invalid",
        401: "event.unauthenticated",
        405: "request.method-not-allowed",
        409: "admission.held admission.recovery-only binding.conflict binding.live-conflict definition.refused"
        " deployment.activation-changed deployment.refused execution.held idempotency.key-reused",
        413: "event.too-large request.body-too-large",
        500: "runtime.failure",
        503: "audit.response-unavailable event.source-unavailable service.unavailable",
    },
    ("join", "reportJoinEvents"): {
        204: "",
        400: "INVALID_INPUT",
        404: "NOT_FOUND",
        409: "IDEMPOTENCY_KEY_REUSED JOIN_ENDED JOIN_NOT_IN_TURN JOIN_STEP_ORDER",
        413: "BODY_TOO_LARGE",
        415: "UNSUPPORTED_MEDIA_TYPE",
        500: "INTERNAL",
        503: "UNAVAILABLE",
    },
    ("installer", "streamInstallEvents"): {
        200: "",
        400: "INVALID_REQUEST",
        401: "INSTALL_CODE_REFUSED",
        429: "INSTALL_CODE_LOCKED",
        500: "INTERNAL",
    },
}

# Codes that the coordinator's contract lists in its problem, and that no operation here gives.
RESERVED: Final = (
    *("check.not-waiting", "operation.not-authorized", "request.retention-invalid", "request.unprocessable"),
    *("restore.lease-incompatible", "run.payload-erased", "workflow.revision-mismatch"),
)

# Each code's title. What the type is, follows from the code.
TITLES: Final[Mapping[ApiName, Mapping[str, str]]] = {
    "coordinator": {
        "admission.held": "Admission is held",
        "admission.recovery-only": "Only recovery is served",
        "audit.response-unavailable": "The audit record is unavailable",
        "authentication.refused": "The credential is refused",
        "binding.conflict": "A connection is not configured",
        "binding.live-conflict": "A live run is bound otherwise",
        "definition.refused": "The definition is refused",
        "deployment.activation-changed": "The active package has changed",
        "deployment.refused": "The deployment does not serve this",
        "evaluation.uncertain": "Evaluating the step is not safe",
        "event.invalid": "The event is not valid",
        "event.source-unavailable": "The source's key is unavailable",
        "event.too-large": "The event is too large",
        "event.unauthenticated": "The event is not authenticated",
        "execution.held": "Execution is held",
        "idempotency.key-invalid": "The idempotency key is not valid",
        "idempotency.key-reused": "The idempotency key is in use",
        "input.invalid": "The input is not valid",
        "mutation.uncertain": "The effect of the call is not known",
        "receipt.expired": "The receipt has expired",
        "reconcile.raced": "The run has moved meanwhile",
        "reconcile.refused": "There is nothing to reconcile",
        "reconcile.unsupported": "The connection has no receipts",
        "request.body-too-large": "The body is too large",
        "request.invalid": "The request is not valid",
        "request.limit-out-of-range": "The limit is out of range",
        "request.method-not-allowed": "The method is not allowed",
        "request.not-found": "There is nothing here",
        "request.reason-invalid": "The reason is not valid",
        "request.unsupported-media-type": "The media type is not supported",
        "restore.hold-required": "There is no hold to release",
        "restore.review-required": "The restore has to be reviewed",
        "restore.unresolved": "The restore is not resolved",
        "retry.refused": "There is nothing to retry",
        "run.definition-incompatible": "The definition cannot be read",
        "run.not-visible": "The run is not visible",
        "runtime.failure": "The server failed",
        "service.unavailable": "The service is unavailable",
        "workflow.not-served": "The workflow is not served",
    },
    "join": {
        "BODY_TOO_LARGE": "The body is too large",
        "IDEMPOTENCY_KEY_REUSED": "The idempotency key is in use",
        "INTERNAL": "The server failed",
        "INVALID_INPUT": "The request is not valid",
        "JOIN_APPROVAL_REFUSED": "The approval is refused",
        "JOIN_ENDED": "The join has ended",
        "JOIN_KEY_MISMATCH": "The key is another one",
        "JOIN_NAME_TAKEN": "The name is taken",
        "JOIN_NOT_IN_TURN": "The join is not in its turn",
        "JOIN_STATE_CONFLICT": "The state of the join does not allow this",
        "JOIN_STEP_ORDER": "The step cannot go there",
        "METHOD_NOT_ALLOWED": "The method is not allowed",
        "NOT_FOUND": "There is nothing here",
        "UNAUTHENTICATED": "The credential is refused",
        "UNAVAILABLE": "The service is unavailable",
        "UNSUPPORTED_MEDIA_TYPE": "The media type is not supported",
    },
    "installer": {
        "BODY_TOO_LARGE": "The body is too large",
        "CONFIG_NOT_SET": "There is no configuration yet",
        "INSTALL_CODE_LOCKED": "No install code is considered now",
        "INSTALL_CODE_REFUSED": "The install code is refused",
        "INSTALL_RUNNING": "An install is running",
        "INTERNAL": "The server failed",
        "INVALID_CONFIG": "The configuration is not valid",
        "INVALID_REQUEST": "The request is not valid",
        "METHOD_NOT_ALLOWED": "The method is not allowed",
        "NOT_FOUND": "There is nothing here",
        "UNSUPPORTED_MEDIA_TYPE": "The media type is not supported",
    },
}


def answers(api: ApiName) -> Iterator[Documented]:
    """Give each answer that is promised of an API's operation."""
    for (of, operation), statuses in ANSWERS.items():
        for status, codes in statuses.items():
            for code in codes.split() or [""]:
                if of == api:
                    yield Documented(operation, status, code)


def check(api: ApiName, answer: Answer) -> None:
    """Fail where a problem has another title or type than its code has."""
    told = (answer.json["title"], answer.json["type"])
    assert told == (TITLES[api][answer.code], type_of(api, answer.code))


def type_of(api: ApiName, code: str) -> str:
    """Return the type of the problems that have a code."""
    if api == "coordinator":
        return f"https://id.registrystack.org/problems/registry-coordinator/{code.replace('.', '/')}"
    return f"urn:gatehouse:problem:{api}:{code.lower().replace('_', '-')}"
