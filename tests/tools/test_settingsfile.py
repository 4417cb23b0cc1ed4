from __future__ import annotations

import pytest

from tools import settingsfile
from tools.settingsfile import SettingsError, SettingsText, dotted, with_key_file
from tools.state import SETTINGS


def read(text: str, name: str) -> SettingsText:
    return settingsfile.read(text.encode(), name)


def refusal(text: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read(text, "gatehouse.yaml")
    return str(refused.value)


def test_a_value_is_read_with_its_place() -> None:
    settings = read("node: a\ncontrol:\n  bind: b\n", "gatehouse.yaml")
    assert settings.value == {"node": "a", "control": {"bind": "b"}}
    assert settings.place(("control", "bind")) == "gatehouse.yaml:3:3"


def test_an_element_of_a_list_has_its_own_place() -> None:
    settings = read("events:\n  - {a: 1}\n  - {a: 2}\n", "gatehouse.yaml")
    assert settings.place(("events", 1)) == "gatehouse.yaml:3:5"
    assert settings.place(("events", 1, "a")) == "gatehouse.yaml:3:6"


def test_what_is_missing_has_the_place_of_what_is_around_it() -> None:
    settings = read("node: a\ncontrol: {}\n", "gatehouse.yaml")
    assert settings.place(("control", "bind")) == "gatehouse.yaml:2:1"
    assert settings.place(("join",)) == "gatehouse.yaml:1:1"


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n\n  # at all\n", "{}"])
def test_an_empty_file_has_no_settings(text: str) -> None:
    assert read(text, "gatehouse.yaml").value == {}


def test_numbers_booleans_and_null_are_read_and_dates_stay_text() -> None:
    text = "a: 5\nb: 1.5\nc: true\nd: null\ne: 2026-04-15\n"
    assert read(text, "f").value == {"a": 5, "b": 1.5, "c": True, "d": None, "e": "2026-04-15"}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("node: a\nnode: b\n", ":2:1", "'node' stands here twice"),
        ("control: {bind: a, bind: b}\n", ":1:20", "'bind' stands here twice"),
        ("node: !!python/object/apply:os.system [x]\n", ":1:7", "tags"),
        ("node: !!str a\n", ":1:7", "tags"),
        ("a: &x 1\nb: *x\n", ":1:4", "anchors"),
        ("b: *x\n", ":1:4", "aliases"),
        ("- a\n", ":1:1", "mapping"),
        ("{a: 1}: 5\n", ":1:1", "name of a member"),
        ("node: {\n", ":2:1", "not YAML"),
        ("node: a\n---\nnode: b\n", ":2:1", "second document"),
        ("node: a\0\n", ":1:8", "character"),
        ("---\n", ":1:1", "mapping"),
        ("node: yes\n", ":1:7", "put it in quotes"),
    ],
)
def test_what_a_person_might_get_wrong_is_refused_at_its_place(text: str, place: str, words: str) -> None:
    message = refusal(text)
    assert message.startswith(f"gatehouse.yaml{place}: ")
    assert words in message


def test_nesting_without_end_is_refused() -> None:
    assert "at most 32 levels" in refusal("a: " + "[" * 600 + "]" * 600)


def test_a_message_never_shows_the_value() -> None:
    assert "hush" not in refusal("databaseUrl: hush: hush\n")


def test_names_are_written_with_dots_and_indexes() -> None:
    assert dotted(("events", 0, "keyFiles", 1)) == "events[0].keyFiles[1]"


LAYOUTS = {
    "as init writes it": SETTINGS,
    "empty": "",
    "without events": "node: a\n",
    "without a newline at the end": "node: a",
    "events without a value": "events:   # none yet\nnode: a\n",
    "an empty list": "events: []  # none yet\nnode: a\n",
    "flow style": "events: [{workflow: w, trigger: t, keyFiles: [k]}]  # one\nnode: a\n",
    "block style, not indented": "events:\n"
    "- workflow: w\n  trigger: t\n  keyFiles:\n  - k  # the key\n\n# tail\nnode: a\n",
    "block style, other order": "events:\n"
    "  - keyFiles: [k]  # the key\n    workflow: w\n    trigger: t  # t\n\n# tail\nnode: a\n",
    "Windows line ends": "node: a\r\nevents:\r\n- {workflow: w, trigger: t, keyFiles: [k]}\r\n",
}


@pytest.mark.parametrize("text", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("pair", [("w", "t"), ("new", "one"), ("yes", 'quoted "x": [y]')])
def test_a_key_file_is_added_in_every_layout_and_nothing_else_changes(text: str, pair: tuple[str, str]) -> None:
    before = read(text, "f").value
    extended = with_key_file(text, "f", *pair, "sources/n.key")
    after = read(extended, "f").value
    entries = {(entry["workflow"], entry["trigger"]): entry["keyFiles"] for entry in before.get("events") or []}
    entries[pair] = [*entries.get(pair, []), "sources/n.key"]
    assert {(entry["workflow"], entry["trigger"]): entry["keyFiles"] for entry in after["events"]} == entries
    assert {**after, "events": None} == {**before, "events": None}
    assert [line.partition("#")[2] for line in extended.splitlines() if "#" in line] == [
        line.partition("#")[2] for line in text.splitlines() if "#" in line
    ]


@pytest.mark.parametrize("text", ["{node: a}\n", "node: a\n...\n"])
def test_a_layout_that_cannot_be_extended_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(SettingsError, match=r"only a person.*workflow: w, trigger: t.*n\.key"):
        with_key_file(text, "f", "w", "t", "n.key")
