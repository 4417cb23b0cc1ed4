from __future__ import annotations

from handlers.coordinator.workflows.digest import digest_of, digest_of_text


def test_a_digest_is_that_of_the_canonical_form() -> None:
    assert digest_of({"b": 1, "a": [True]}) == digest_of_text(b'{"a":[true],"b":1}')
    assert digest_of({}) == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
