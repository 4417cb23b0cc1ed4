from __future__ import annotations

import re

import pytest

from handlers.coordinator.workflows.path_template import PATH_TEMPLATE, has_dot_segments


@pytest.mark.parametrize("text", ["/", "/cases", "/cases/{id}", "/a%2F/{id}:close", "/a//b/"])
def test_a_path_template_has_characters_of_a_path_and_names_in_braces(text: str) -> None:
    assert re.fullmatch(PATH_TEMPLATE, text)


@pytest.mark.parametrize("text", ["", "cases", "/a b", "/{a-b}", "/{", "/%2f", "/a?b", "/a\n", "/é"])
def test_nothing_else_is_a_path_template(text: str) -> None:
    assert not re.fullmatch(PATH_TEMPLATE, text)


def test_only_whole_segments_of_dots_are_dot_segments() -> None:
    assert has_dot_segments("/a/../b")
    assert has_dot_segments("/.")
    assert not has_dot_segments("/a./..b/...")
