from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.tools.contract.library import CONTENT
from tools.contract.traffic import UnusableDocumentError, reachable, recorder


def test_documents_are_gatehouse_s_own_as_a_listener_serves_them_or_those_of_files(tmp_path: Path) -> None:
    file = tmp_path / "library.json"
    file.write_text(json.dumps(CONTENT))
    theirs = recorder([file], "control", strict_requests=False).coverage.promised
    assert {cell.document for cell in theirs} == {"library"}
    ours = recorder([], "control", strict_requests=False).coverage.promised
    assert {cell.document for cell in ours} == {"coordinator", "join"}


def test_a_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "library.json"
    file.write_text("{}")
    with pytest.raises(UnusableDocumentError):
        recorder([file], "control", strict_requests=False)


def test_an_upstream_is_reachable_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert reachable(url)
    assert not reachable(url)
