"""Takes a machine into the cluster: mints a token, registers, approves, and reports each step until it has joined.

    python join.py http://127.0.0.1:8080 .gatehouse/operator.token https://127.0.0.1:8443 .gatehouse/ca/ca.pem

The operator's part and the node's are in one program here; they would be on two machines.
"""

import base64
import hashlib
import ssl
import sys
import tempfile
import time
import uuid
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from gatehouse_join import AuthenticatedClient
from gatehouse_join.api.events import report_join_events
from gatehouse_join.api.registrations import approve_node_join, get_registration, register
from gatehouse_join.api.tokens import mint_join_token
from gatehouse_join.models import (
    Admission,
    JoinEvent,
    JoinEventStatus,
    JoinEventType,
    JoinReport,
    JoinState,
    MintedToken,
    Newcomer,
    NodeRole,
    RaftMembershipState,
    Registration,
    TokenOrder,
)


def has_pin(ca_file: str, pin: str) -> bool:
    """Tell whether the authority is the one that a token names: it is sent to no other."""
    key = x509.load_pem_x509_certificate(Path(ca_file).read_bytes()).public_key()
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == pin


def request_for(key: ec.EllipticCurvePrivateKey) -> str:
    """Return a certificate request of a key; the server takes nothing but the key from it."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def client_context(ca_file: str, certificate: str, key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    """Return what shows the certificate in the handshake: mutual TLS is no affair of the generated client."""
    context = ssl.create_default_context(cafile=ca_file)
    with tempfile.NamedTemporaryFile("wb") as file:
        file.write(certificate.encode())
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        context.load_cert_chain(file.name)
    return context


def registration(node: AuthenticatedClient, join_id: uuid.UUID) -> Registration:
    """Return the registration as it stands."""
    answer = get_registration.sync(join_id, client=node)
    if not isinstance(answer, Registration):
        sys.exit(f"the registration is not shown: {answer}")
    return answer


def report(node: AuthenticatedClient, join_id: uuid.UUID, step: str, status: JoinEventStatus) -> None:
    """Report how far a step is."""
    event = JoinEvent(type_=JoinEventType.STEP, step=step, status=status)
    problem = report_join_events.sync(join_id, client=node, body=JoinReport(events=[event]))
    if problem is not None:
        sys.exit(f"the report is refused: {problem}")


def main(control: str, token_file: str, founder: str, ca_file: str) -> None:
    """Have a node join, and print the states that it goes through."""
    operator = AuthenticatedClient(control, token=Path(token_file).read_text().strip())
    minted = mint_join_token.sync(client=operator, body=TokenOrder(ttl_seconds=600))
    if not isinstance(minted, MintedToken):
        sys.exit(f"no token: {minted}")

    secret, pin = minted.token.split(".")
    if not has_pin(ca_file, pin):
        sys.exit("the authority is not the one that the token names")
    key = ec.generate_private_key(ec.SECP256R1())
    newcomer = AuthenticatedClient(founder, token=secret, verify_ssl=ssl.create_default_context(cafile=ca_file))
    name = f"node-{minted.token_id.hex[-12:]}"
    admission = register.sync(
        client=newcomer,
        body=Newcomer(name=name, role=NodeRole.COMPUTE, address=f"{name}.example", csr=request_for(key)),
    )
    if not isinstance(admission, Admission):
        sys.exit(f"not registered: {admission}")
    print(admission.state)

    approved = approve_node_join.sync(admission.join_id, client=operator)
    if not isinstance(approved, Registration):
        sys.exit(f"not approved: {approved}")

    # From here on the certificate is what authenticates; the generated client wants a token all the same.
    context = client_context(ca_file, admission.certificate, key)
    node = AuthenticatedClient(founder, token="", prefix="", verify_ssl=context)
    while registration(node, admission.join_id).state != JoinState.JOINING:
        time.sleep(0.2)
    print(JoinState.JOINING)
    for step in registration(node, admission.join_id).plan:
        report(node, admission.join_id, step, JoinEventStatus.RUNNING)
        if step.startswith("raft:"):
            # The server adds the node as a learner; here its member would be started, and would catch up.
            while registration(node, admission.join_id).rafts[0].state != RaftMembershipState.LEARNER:
                time.sleep(0.2)
        report(node, admission.join_id, step, JoinEventStatus.DONE)
    while registration(node, admission.join_id).state != JoinState.JOINED:
        time.sleep(0.2)
    print(JoinState.JOINED)


if __name__ == "__main__":
    main(*sys.argv[1:])
