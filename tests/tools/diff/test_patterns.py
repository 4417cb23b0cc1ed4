from __future__ import annotations

import re
from itertools import product

import pytest

from tools.diff.patterns import contained

TEXTS = ["".join(each) for length in range(5) for each in product("ab1\n", repeat=length)]
KNOWN = [
    *("", "a", "^a", "a$", "^$", "a|^b$", "^a{2,}$", "^[ab]+$", "^(?:a|b1)*$"),
    *("^[^a]?b{1,2}$", r"^\d\w?$", r"^.{2}$"),
]


@pytest.mark.parametrize("wide", KNOWN)
def test_a_verdict_is_what_the_texts_show(wide: str) -> None:
    # Python reads these as ECMA-262 does, but for $, which it also takes before a last line break.
    taken = {each: {text for text in TEXTS if re.search(each.replace("$", r"\Z"), text, re.ASCII)} for each in KNOWN}
    for narrow in KNOWN:
        assert contained([narrow], wide) is (taken[narrow] <= taken[wide]), narrow


def test_patterns_that_hold_together_are_taken_together() -> None:
    assert contained(["^a", "b$"], r"^a[\s\S]*b$")
    assert not contained(["^a"], r"^a[\s\S]*b$")


@pytest.mark.parametrize(
    "odd", [r"^(?!a)", r"(a)\1", r"\bword", "[a&&b]", r"^a{1,99999}$", "a**", "(", "(^a)", r"^\ud83d"]
)
def test_what_is_not_regular_or_not_read_is_not_known(odd: str) -> None:
    assert contained(["a"], odd) is None
    assert contained([odd], "b") is None
    assert contained([odd, "^a$"], "^a") is True


def test_patterns_with_too_many_ways_are_not_known() -> None:
    assert contained(["^(a|b)*a(a|b){16}$"], "^(a|b)*(a|b)a(a|b){16}$|^a(a|b){16}$") is None
