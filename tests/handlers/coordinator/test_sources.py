from __future__ import annotations

import errno
import hashlib
import hmac
import logging
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from handlers.coordinator import sources as module
from handlers.coordinator.sources import MAX_KEY_BYTES, SourceKeys, Sources, key_state

OLD = b"an old key of thirty-two bytes.."
NEW = b"a new key of thirty-two bytes..."
OTHER = b"another key, of more bytes than thirty-two\x00\xff\n"


@dataclass(frozen=True)
class Entry:
    workflow: str
    trigger: str
    key_files: Sequence[Path]


class Settings:
    """A settings file in a folder, and a loader of the entries that it is said to have."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gatehouse.yaml"
        self.first = folder / "first.key"
        self.second = folder / "second.key"
        self.first.write_bytes(OLD)
        self.second.write_bytes(OTHER)
        self.fault: Exception | None = None
        self.loads = 0
        self.write([Entry("flow", "one", [self.first]), Entry("flow", "two", [self.first, self.second])])

    def write(self, entries: Sequence[Entry], fault: Exception | None = None) -> None:
        self.entries, self.fault = entries, fault
        fresh = self.path.with_suffix(".new")
        fresh.write_text("events: []\n")
        fresh.replace(self.path)

    def __call__(self) -> Sequence[Entry]:
        self.loads += 1
        if self.fault:
            raise self.fault
        return self.entries


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path)


@pytest.fixture
def sources(settings: Settings) -> Sources:
    return Sources(settings, settings.path)


@pytest.fixture
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_UNSETTLED", -(10**18))


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.WARNING):
        yield lambda: [record.getMessage() for record in caplog.records]


def uses(keys: SourceKeys, *expected: bytes) -> bool:
    """Whether the keys of a pair are exactly these, and what stands in for others is none of the test's keys."""
    made = [state.copy().digest() for state in keys.states]
    known = [hmac.digest(key, b"", hashlib.sha256) for key in (OLD, NEW, OTHER)]
    own, dummies = made[: keys.configured], made[keys.configured :]
    return own == [hmac.digest(key, b"", hashlib.sha256) for key in expected] and not set(dummies) & set(known)


def test_a_pair_has_the_keys_of_its_files_in_their_order(sources: Sources) -> None:
    one, two = sources.find("flow", "one"), sources.find("flow", "two")
    assert (one.configured, one.readable) == (1, True)
    assert (two.configured, two.readable) == (2, True)
    assert uses(one, OLD)
    assert uses(two, OLD, OTHER)


@pytest.mark.parametrize(
    "pair", [("flow", "three"), ("other", "one"), ("", ""), ("one", "flow"), ("\u00e9\ud800", "\x00")]
)
def test_an_unknown_pair_has_two_dummies(sources: Sources, pair: tuple[str, str]) -> None:
    keys = sources.find(*pair)
    assert (keys.configured, keys.readable) == (0, True)
    assert uses(keys)
    assert keys.states[0].copy().digest() != keys.states[1].copy().digest()


def test_dummies_differ_from_process_to_process(settings: Settings) -> None:
    made = {Sources(settings, settings.path).find("no", "pair").states[0].copy().digest() for _ in range(3)}
    assert len(made) == 3


@pytest.mark.usefixtures("_settled")
def test_known_and_unknown_pairs_cost_as_many_looks_at_files(
    sources: Sources, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    look = module._look
    monkeypatch.setattr(module, "_look", lambda path: looks.append(path) or look(path))  # type: ignore[func-returns-value]
    settings.first.unlink()
    counts = []
    for trigger in ("one", "two", "three"):
        looks.clear()
        sources.find("flow", trigger)
        counts.append(len(looks))
    assert counts == [3, 3, 3]


@pytest.mark.usefixtures("_settled")
def test_files_that_do_not_change_are_read_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    content = module._content
    monkeypatch.setattr(
        module, "_content", lambda path, found: reads.append(path) or content(path, found)  # type: ignore[func-returns-value]
    )  # fmt: skip
    sources = Sources(settings, settings.path)
    for _ in range(5):
        assert uses(sources.find("flow", "one"), OLD)
        assert uses(sources.find("flow", "two"), OLD, OTHER)
    assert reads == [settings.first, settings.second]
    assert settings.loads == 1


def test_a_key_that_is_replaced_while_serving_is_used_at_once(sources: Sources, settings: Settings) -> None:
    assert uses(sources.find("flow", "one"), OLD)
    fresh = settings.first.with_suffix(".new")
    fresh.write_bytes(NEW)
    fresh.replace(settings.first)
    assert uses(sources.find("flow", "one"), NEW)
    assert uses(sources.find("flow", "two"), NEW, OTHER)


def test_a_key_that_is_overwritten_in_place_with_the_same_length_and_times_is_used_at_once(
    sources: Sources, settings: Settings
) -> None:
    before = settings.first.stat()
    for key in (NEW, OLD) * 20:
        settings.first.write_bytes(key)
        os.utime(settings.first, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert uses(sources.find("flow", "one"), key)


@pytest.mark.usefixtures("_settled")
def test_a_file_whose_own_time_alone_has_changed_is_read_again(sources: Sources, settings: Settings) -> None:
    before = settings.first.stat()
    while settings.first.stat().st_ctime_ns == before.st_ctime_ns:
        settings.first.write_bytes(NEW)
        os.utime(settings.first, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert settings.first.stat().st_mtime_ns == before.st_mtime_ns
    assert uses(sources.find("flow", "one"), NEW)


def test_files_that_changed_a_moment_ago_are_not_trusted_to_show_the_next_change(
    sources: Sources, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNSETTLED", 10**20)
    monkeypatch.setattr(module, "_stamp", lambda _: (0, 0, 0, 0))
    for key in (OLD, NEW, OLD):
        settings.first.write_bytes(key)
        assert uses(sources.find("flow", "one"), key)
    settings.write([Entry("flow", "one", [settings.second])])
    assert uses(sources.find("flow", "one"), OTHER)


@pytest.mark.usefixtures("_settled")
def test_a_key_that_could_not_be_opened_is_tried_again_although_its_file_does_not_change(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_content", fail)
        sources = Sources(settings, settings.path)
        assert not sources.find("flow", "one").readable
    assert uses(sources.find("flow", "one"), OLD)


def test_a_key_behind_a_link_follows_the_link(settings: Settings, tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "elsewhere"
    other.symlink_to(settings.second)
    link.symlink_to(settings.first)
    settings.write([Entry("flow", "one", [link])])
    sources = Sources(settings, settings.path)
    assert uses(sources.find("flow", "one"), OLD)
    other.replace(link)
    assert uses(sources.find("flow", "one"), OTHER)


def spoil(path: Path, how: str) -> None:
    path.unlink()
    match how:
        case "emptied":
            path.touch()
        case "short":
            path.write_bytes(NEW[:31])
        case "long":
            path.write_bytes(bytes(MAX_KEY_BYTES + 1))
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "dangling":
            path.symlink_to(path.with_name("nowhere"))


@pytest.mark.parametrize("how", ["removed", "emptied", "short", "long", "folder", "pipe", "dangling"])
def test_a_key_that_cannot_be_used_makes_its_pairs_unreadable_until_it_can(
    sources: Sources, settings: Settings, how: str, warnings: Callable[[], list[str]]
) -> None:
    spoil(settings.first, how)
    for _ in range(3):
        one, two = sources.find("flow", "one"), sources.find("flow", "two")
        assert (one.configured, one.readable) == (1, False)
        assert (two.configured, two.readable) == (2, False)
        assert not uses(one, OLD)
    assert len(warnings()) == 1
    assert str(settings.first) in warnings()[0]
    fresh = settings.first.with_suffix(".new")
    fresh.write_bytes(NEW)
    if settings.first.is_dir():
        settings.first.rmdir()
    fresh.replace(settings.first)
    assert sources.find("flow", "one").readable
    assert uses(sources.find("flow", "two"), NEW, OTHER)
    assert len(warnings()) == 1


def test_a_key_that_cannot_be_used_at_start_is_told_and_tried_again(
    settings: Settings, warnings: Callable[[], list[str]]
) -> None:
    settings.first.write_bytes(b"short secret")
    sources = Sources(settings, settings.path)
    assert not sources.find("flow", "one").readable
    settings.first.write_bytes(OLD)
    assert uses(sources.find("flow", "one"), OLD)
    assert len(warnings()) == 1
    assert "short secret" not in warnings()[0]


def test_a_pair_without_a_spoilt_key_is_not_touched_by_it(sources: Sources, settings: Settings) -> None:
    spoil(settings.second, "removed")
    assert sources.find("flow", "one").readable
    assert not sources.find("flow", "two").readable
    assert sources.find("flow", "three").readable


@pytest.mark.parametrize("size", [32, 33, 64, 65, 4096, MAX_KEY_BYTES])
def test_a_key_is_the_raw_bytes_of_its_file(sources: Sources, settings: Settings, size: int) -> None:
    key = bytes(range(256)) * (size // 256 + 1)
    settings.first.write_bytes(key[:size])
    assert uses(sources.find("flow", "one"), key[:size])


@pytest.mark.parametrize("size", [0, 1, 31, MAX_KEY_BYTES + 1])
def test_a_key_of_another_length_is_no_key(size: int) -> None:
    with pytest.raises(ValueError, match="32 to 65536 bytes"):
        key_state(bytes(size))


def test_pairs_come_go_and_change_with_the_settings(sources: Sources, settings: Settings) -> None:
    settings.write([Entry("flow", "two", [settings.second]), Entry("flow", "three", [settings.first, settings.second])])
    assert sources.find("flow", "one").configured == 0
    assert uses(sources.find("flow", "two"), OTHER)
    assert uses(sources.find("flow", "three"), OLD, OTHER)
    settings.write([])
    assert sources.find("flow", "two").configured == 0


def test_a_rotation_adds_the_new_key_and_then_takes_the_old_one_away(sources: Sources, settings: Settings) -> None:
    settings.second.write_bytes(NEW)
    settings.write([Entry("flow", "one", [settings.first, settings.second])])
    assert uses(sources.find("flow", "one"), OLD, NEW)
    settings.write([Entry("flow", "one", [settings.second])])
    settings.first.unlink()
    assert uses(sources.find("flow", "one"), NEW)
    assert sources.find("flow", "one").readable


class HalfWrittenError(Exception):
    pass


def test_half_written_settings_leave_the_last_good_entries_and_are_told_once(
    sources: Sources, settings: Settings, warnings: Callable[[], list[str]]
) -> None:
    settings.write([], HalfWrittenError("a secret value"))
    for _ in range(3):
        assert uses(sources.find("flow", "two"), OLD, OTHER)
    assert len(warnings()) == 1
    assert str(settings.path) in warnings()[0]
    assert "secret" not in warnings()[0]
    settings.write([Entry("flow", "two", [settings.second])])
    assert uses(sources.find("flow", "two"), OTHER)
    settings.write([], HalfWrittenError())
    assert uses(sources.find("flow", "two"), OTHER)
    assert len(warnings()) == 2


@pytest.mark.parametrize("instead", [None, Path.mkdir, os.mkfifo])
def test_settings_that_are_no_file_any_more_leave_the_last_good_entries(
    sources: Sources, settings: Settings, instead: Callable[[Path], None] | None
) -> None:
    settings.path.unlink()
    settings.entries = []
    if instead is not None:
        instead(settings.path)
    assert uses(sources.find("flow", "two"), OLD, OTHER)
    if settings.path.is_dir():
        settings.path.rmdir()
    settings.write([])
    assert sources.find("flow", "two").configured == 0


def test_a_key_is_still_followed_while_the_settings_are_broken(sources: Sources, settings: Settings) -> None:
    settings.write([], HalfWrittenError())
    settings.first.write_bytes(NEW)
    assert uses(sources.find("flow", "one"), NEW)


@pytest.mark.usefixtures("_settled")
@pytest.mark.parametrize(("wait", "loads"), [(0.0, 2), (math.inf, 1)])
def test_broken_settings_are_tried_again_after_a_while_although_they_do_not_change(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, wait: float, loads: int
) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", wait)
    sources = Sources(settings, settings.path)
    settings.write([], HalfWrittenError())
    assert uses(sources.find("flow", "one"), OLD)
    settings.loads = 1
    settings.entries, settings.fault = [Entry("flow", "one", [settings.second])], None
    assert uses(sources.find("flow", "one"), OTHER if loads == 2 else OLD)
    sources.find("flow", "one")
    assert settings.loads == loads


def test_settings_that_cannot_be_loaded_at_start_are_not_served(settings: Settings) -> None:
    settings.write([], HalfWrittenError())
    with pytest.raises(HalfWrittenError):
        Sources(settings, settings.path)
