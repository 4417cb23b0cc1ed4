from __future__ import annotations

import pytest

from tools.watcher import answers
from tools.watcher.answers import Install, InstallEvent, Step


def test_an_install_is_read_with_whatever_else_it_has() -> None:
    content = (
        b'{"attempt":1,"state":"failed","steps":[{"name":"a","status":"failed","startedAt":null}],"new":{},'
        b'"detail":"why","lastEventId":7}'
    )
    assert answers.install(content) == Install(1, "failed", [Step("a", "failed")], "why", 7)


def test_an_event_is_read_and_what_does_not_apply_is_none() -> None:
    read = answers.install_event('{"id":7,"attempt":1,"type":"log","line":"\\u0000","at":"t"}')
    assert read == InstallEvent(7, 1, "log", line="\0")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"id":"7","attempt":1,"type":"log"}', '{"id":7,"attempt":1,"type":"log","line":3}']
)
def test_what_is_no_event_or_install_is_none(content: str) -> None:
    assert answers.install_event(content) is None
    assert answers.install(content.encode()) is None


def test_what_is_nested_without_end_is_none() -> None:
    assert answers.install(b"[" * 100_000) is None
    assert answers.install_event("[" * 100_000) is None
