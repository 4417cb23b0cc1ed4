from __future__ import annotations

import hashlib
import json

import pytest
import rfc8785

from storage.chain import GENESIS, Entry, Head, link

ENTRY = Entry(1_764_500_000_000, "run.admitted", "0193", '{"a":"b"}')


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY,
        Entry(0, "hold.restored", 'a "subject"\\', '{"reason":"\\u0000\\u001f\u2028ﬃ\U0001f600"}'),
    ],
)
def test_a_line_is_canonical_json_whose_hash_is_over_all_but_itself(entry: Entry) -> None:
    made = link("node \n é", 7, "ab" * 32, entry)
    assert made.line.endswith(b"\n")
    line = json.loads(made.line)
    assert rfc8785.dumps(line) + b"\n" == made.line
    assert line.pop("hash") == made.hash == hashlib.sha256(rfc8785.dumps(line)).hexdigest()
    assert line == {
        "action": entry.action,
        "at": entry.at,
        "body": json.loads(entry.body),
        "node": "node \n é",
        "prev": "ab" * 32,
        "seq": 7,
        "subject": entry.subject,
    }


def test_a_hash_depends_on_everything_that_a_line_tells() -> None:
    hashes = {
        link(node, seq, prev, entry).hash
        for node in ("a", "b")
        for seq in (1, 2)
        for prev in (GENESIS, "1" * 64)
        for entry in (
            ENTRY,
            Entry(ENTRY.at + 1, ENTRY.action, ENTRY.subject, ENTRY.body),
            Entry(ENTRY.at, "other", ENTRY.subject, ENTRY.body),
            Entry(ENTRY.at, ENTRY.action, "other", ENTRY.body),
            Entry(ENTRY.at, ENTRY.action, ENTRY.subject, "{}"),
        )
    }
    assert len(hashes) == 40


def test_an_empty_chain_ends_at_its_beginning() -> None:
    assert Head() == (0, GENESIS, 0)
