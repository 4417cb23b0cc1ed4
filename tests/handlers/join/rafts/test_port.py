from __future__ import annotations

import pytest

from handlers.join.rafts.port import peer_url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("node-1.example", "https://node-1.example:2380"),
        ("10.0.0.7", "https://10.0.0.7:2380"),
        ("fd00::7", "https://[fd00::7]:2380"),
    ],
)
def test_a_member_that_names_no_url_has_one_of_its_address(address: str, url: str) -> None:
    assert peer_url("https", address, 2380) == url
