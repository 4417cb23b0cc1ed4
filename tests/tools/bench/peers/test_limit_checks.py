import hmac
from base64 import urlsafe_b64encode

import pytest

from tools.bench.deliveries import canonical, event
from tools.bench.peers.limit_checks import Key, Problem, read_envelope, read_usual

EVENT_ID = "5d0c7c6e-0a53-4cf0-9d6c-2f6d2f3d1f10"


def body_with(data: str) -> bytes:
    whole = canonical(event(EVENT_ID) | {"data": "@"}).decode()
    return whole.replace('"@"', data).encode()


@pytest.mark.parametrize("length", [32, 64, 65, 200])
def test_the_prepared_hmac_is_that_of_the_standard_library(length: int) -> None:
    secret = b"k" * length
    expected = urlsafe_b64encode(hmac.digest(secret, b"message", "sha256"))[:43]
    assert Key(secret).signature(b"message") == b"v1=" + expected


@pytest.mark.parametrize("data", ["null", '"ä"', "[1,-1,123456789012345]", '{"a":{},"b":[]}'])
def test_plain_values_are_read_without_the_reference(data: str) -> None:
    assert read_usual(body_with(data)) is not None


@pytest.mark.parametrize("data", ["0.5", "1e-7", "1e+21", "10000000000000000", '{"😀":1,"\ufb33":2}', "0.000001"])
def test_unusual_values_are_read_by_the_reference(data: str) -> None:
    body = body_with(data)
    assert read_usual(body) is None
    assert read_envelope(body).id == EVENT_ID


@pytest.mark.parametrize(
    "data", ["1.0", "-0", "-0.0", "1e-6", "1e16", "1E5", "9007199254740993", "9" * 5000, '{"b":1,"a":2}', '"\\u0041"']
)
def test_what_is_not_canonical_is_refused(data: str) -> None:
    with pytest.raises(Problem, match=r"event\.invalid"):
        read_envelope(body_with(data))
