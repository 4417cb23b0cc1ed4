"""The tag registrations: a node registers and is certified, an operator decides, both see how the join stands."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from generated.join import models
from generated.join.operations import approve_node_join as approve_op
from generated.join.operations import get_registration as get_op
from generated.join.operations import list_registrations as list_op
from generated.join.operations import register as register_op
from generated.join.operations import reject_node_join as reject_op
from generated.join.operations import renew_certificate as renew_op
from handlers.gateway.endpoint import UNAUTHENTICATED
from handlers.gateway.times import rfc3339
from handlers.join.app import App
from handlers.join.certificates import NodeKey, spki_pin
from handlers.join.csr import CsrRefused, read_csr
from handlers.join.standing import NO_JOIN, standing
from storage.join.refusals import Refusal, Refused
from storage.join.registrations import Newcomer, RaftPlan, RaftRecord, Registration, StepRecord

BAD_CSR: Final = "The certificate request is not one that a certificate is issued for."
NAME_TAKEN: Final = "A live join has this name."
OTHER_KEY: Final = "The certificate request is not for the key that this join has registered."
RENEWAL_ENDED: Final = "The join has ended, and its certificate with it."
CONFLICT: Final = "The join has ended."
APPROVAL_REFUSED: Final = "Another live join has what the approval names."
TAKEN: Final = "is that of another live join"


async def register(app: App, request: register_op.Request) -> register_op.Response:
    """Spend the token on a join and certify the node's key; a repeat with the same key finds its own join."""
    try:
        key = read_csr(request.body.csr)
    except CsrRefused as refused:
        raise register_op.InvalidInput(BAD_CSR, errors=_csr_errors(refused)) from None
    outcome = await app.storage.join.registrations.register(_newcomer(app, request, key))
    if isinstance(outcome, Refused):
        if outcome.why is Refusal.NAME_TAKEN:
            raise register_op.JoinNameTaken(NAME_TAKEN)
        raise register_op.Unauthenticated(UNAUTHENTICATED)
    answer = register_op.Created if outcome.new else register_op.Ok
    return answer(body=_admission(app, key, outcome.registration))


async def renew_certificate(app: App, request: renew_op.Request) -> renew_op.Response:
    """Issue another certificate for the key that the join is pinned to."""
    join_id = request.principal.join_id
    try:
        key = read_csr(request.body.csr)
    except CsrRefused as refused:
        raise renew_op.InvalidInput(BAD_CSR, errors=_csr_errors(refused)) from None
    identity = await app.identities.find(join_id)
    if identity is None or identity.pin != spki_pin(key):
        raise renew_op.JoinKeyMismatch(OTHER_KEY)
    expires_at = await app.storage.join.registrations.renew(join_id)
    if expires_at is None:
        raise renew_op.NotFound(NO_JOIN)
    if isinstance(expires_at, Refused):
        raise renew_op.JoinEnded(RENEWAL_ENDED, details=standing(expires_at))
    return renew_op.Ok(
        body=models.IssuedCertificate(
            certificate=app.authority.issue(key, join_id, expires_at),
            ca_certificate=app.authority.pem,
            certificate_expires_at=rfc3339(expires_at),
        )
    )


async def list_registrations(app: App, request: list_op.Request) -> list_op.Response:
    """Give the oldest registrations."""
    state = None if request.state is UNSET else request.state
    found = await app.storage.join.registrations.list(state=state, limit=request.limit)
    return list_op.Ok(body=models.RegistrationList(registrations=[registration_model(each) for each in found]))


async def get_registration(app: App, request: get_op.Request) -> get_op.Response:
    """Show a join as it stands, to its node or to an operator."""
    found = await app.storage.join.registrations.get(request.join_id)
    if found is None:
        raise get_op.NotFound(NO_JOIN)
    return get_op.Ok(body=registration_model(found))


async def approve_node_join(app: App, request: approve_op.Request) -> approve_op.Response:
    """Queue a join for its turn, which it has at once where nobody else has it."""
    asked = models.Approval() if request.body is UNSET else request.body
    outcome = await app.storage.join.registrations.approve(
        request.join_id,
        role=None if asked.role is UNSET else asked.role,
        address=None if asked.address is UNSET else asked.address,
    )
    if outcome is None:
        raise approve_op.NotFound(NO_JOIN)
    if isinstance(outcome, Refused):
        if outcome.why is Refusal.APPROVAL_REFUSED:
            errors = [models.FieldError(field_=field, message=TAKEN) for field in outcome.fields]
            raise approve_op.JoinApprovalRefused(APPROVAL_REFUSED, errors=errors)
        raise approve_op.JoinStateConflict(CONFLICT)
    app.turns.wake()
    return approve_op.Ok(body=registration_model(outcome))


async def reject_node_join(app: App, request: reject_op.Request) -> reject_op.Response:
    """Turn a node away; in its turn the join fails, and the node is taken out of what it has reached."""
    outcome = await app.storage.join.registrations.reject(request.join_id, request.body.reason)
    if outcome is None:
        raise reject_op.NotFound(NO_JOIN)
    if isinstance(outcome, Refused):
        raise reject_op.JoinStateConflict(CONFLICT)
    app.turns.wake()
    return reject_op.Ok(body=registration_model(outcome))


def registration_model(found: Registration) -> models.Registration:
    """Return a stored join as answers have it."""
    failure = found.failure
    return models.Registration(
        join_id=found.join_id,
        name=found.name,
        role=found.role,
        address=found.address,
        state=found.state,
        position=found.position,
        plan=list(found.plan),
        steps=[_step_model(step) for step in found.steps],
        rafts=[_raft_model(raft) for raft in found.rafts],
        registered_at=rfc3339(found.registered_at),
        approved_at=rfc3339(found.approved_at),
        turn_started_at=rfc3339(found.turn_started_at),
        ended_at=rfc3339(found.ended_at),
        failure=None if failure is None else models.JoinFailure(step=failure.step, reason=failure.reason),
        certificate_expires_at=rfc3339(found.certificate_expires_at),
    )


def _step_model(step: StepRecord) -> models.JoinStep:
    return models.JoinStep(
        step=step.step,
        status=step.status,
        message=step.message,
        started_at=rfc3339(step.started_at),
        ended_at=rfc3339(step.ended_at),
    )


def _raft_model(raft: RaftRecord) -> models.RaftMembership:
    return models.RaftMembership(
        name=raft.name,
        kind=raft.kind,
        state=raft.state,
        member_id=raft.member_id,
        peers=[models.RaftPeer(name=peer.name, peer_url=peer.peer_url) for peer in raft.peers],
        error=raft.error,
    )


def _newcomer(app: App, request: register_op.Request, key: NodeKey) -> Newcomer:
    body = request.body
    return Newcomer(
        token_id=request.principal.token_id,
        pin=spki_pin(key),
        name=body.name,
        role=body.role,
        address=body.address,
        peer_urls=None if body.peer_urls is UNSET else tuple(body.peer_urls),
        rafts=tuple(RaftPlan(raft.name, raft.kind) for raft in app.rafts),
    )


def _admission(app: App, key: NodeKey, found: Registration) -> models.Admission:
    return models.Admission(
        join_id=found.join_id,
        state=found.state,
        position=found.position,
        certificate=app.authority.issue(key, found.join_id, found.certificate_expires_at),
        ca_certificate=app.authority.pem,
        certificate_expires_at=rfc3339(found.certificate_expires_at),
        expires_at=rfc3339(found.expires_at),
    )


def _csr_errors(refused: CsrRefused) -> list[models.FieldError]:
    return [models.FieldError(field_="csr", message=str(refused))]
