from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.lint.document import UnreadableError, read, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "document.yaml"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("-12", -12),
        ("0.5", 0.5),
        ("'2026-04-15'", "2026-04-15"),
        ("plain text", "plain text"),
        ("[1, {b: c}]", [1, {"b": "c"}]),
    ],
)
def test_a_value_is_what_json_would_have(path: Path, text: str, value: Any) -> None:
    path.write_text(f"member: {text}\n", "utf-8")
    assert read(path).root == {"member": value}


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("a: 1\nb: 2\na: 3\n", "the key a stands here twice", (3, 1)),
        ("a: {200: ok}\n", "a key that is not text", (1, 5)),
        ("a: no\n", "'no' is not text in YAML", (1, 4)),
        ("a: 2026-04-15\n", "'2026-04-15' is not text in YAML", (1, 4)),
        ("a: 1:30\n", "'1:30' is not text in YAML", (1, 4)),
        ("a: 0o7\nb: 010\n", "'010' is not text in YAML", (2, 4)),
        ("a: .nan\n", "'.nan' is not text in YAML", (1, 4)),
        ("a:\n", "'' is not text in YAML", (1, 3)),
        ("<<: {a: b}\n", "a key that is not text", (1, 1)),
        ("a: !!str 1\n", "tags are not used", (1, 4)),
        ("a: !!python/name:os.system x\n", "tags are not used", (1, 4)),
        ("a: &one 1\n", "anchors are not used", (1, 4)),
        ("a: [\n", "expected the node content", (2, 1)),
        ("a: 1\n---\nb: 2\n", "but found another document", (2, 1)),
        ("- a\n", "is not a mapping", (1, 1)),
        ("", "is not a mapping", (1, 1)),
    ],
)
def test_what_is_not_plain_yaml_is_refused_at_its_place(
    path: Path, text: str, message: str, position: tuple[int, int]
) -> None:
    path.write_text(text, "utf-8")
    with pytest.raises(UnreadableError, match=message) as refusal:
        read(path)
    assert refusal.value.position == position


@pytest.mark.parametrize("raw", [b"a: \xff\n", b"a: \x00\n"])
def test_bytes_that_are_no_yaml_text_are_refused(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    with pytest.raises(UnreadableError):
        read(path)


def test_each_part_has_the_position_where_it_is_written(path: Path) -> None:
    path.write_text("a:\n  b:\n    - x\n    -   y\n", "utf-8")
    document = read(path)
    assert document.position(("a", "b")) == (2, 3)
    assert document.position(("a", "b", "1")) == (4, 9)
    assert document.position(("a", "b", "1", "missing")) == (4, 9)
    assert document.position(("missing",)) == (1, 1)


def test_a_pointer_is_spelled_as_rfc_6901_has_it() -> None:
    assert written(("paths", "/runs/{run}", "a~b")) == "/paths/~1runs~1{run}/a~0b"
    assert written(()) == ""
