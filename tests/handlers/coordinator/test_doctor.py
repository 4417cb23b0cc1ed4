from __future__ import annotations

import re
from typing import Any

from tests.support.gatehouse import Gatehouse, NewServer

NOTHING = {"admitted": 0, "running": 0, "waiting": 0, "uncertain": 0, "completed": 0, "failed": 0, "cancelled": 0}


def look(server: Gatehouse) -> dict[str, Any]:
    answer = server.operate("GET", "/v1/doctor")
    assert answer.status == 200
    return dict(answer.json)


def test_a_new_deployment_has_nothing_but_its_package(own_server: Gatehouse) -> None:
    seen = look(own_server)
    activation = seen.pop("activation")
    listed = own_server.run("workflows", "list", "--state", str(own_server.state), "--json")
    assert activation["digest"] in listed.stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", activation["appliedAt"])
    assert seen == {
        "holds": {"admissionHeld": False, "executionHeld": False},
        "runs": NOTHING,
        "oldestDueAt": None,
        "uncertain": 0,
        "backlog": 0,
    }


def test_without_a_package_there_is_none(new_server: NewServer) -> None:
    server = new_server()
    for file in ("gatehouse.db", "audit.jsonl"):
        (server.state / file).unlink()
    server.start()
    assert look(server)["activation"] is None


def test_runs_are_counted_by_state_and_holds_are_told(own_server: Gatehouse) -> None:
    runs = [own_server.deliver().run for _ in range(3)]
    assert own_server.operate("POST", f"/v1/runs/{runs[0]}/cancel", {"reason": "A test."}).status == 200
    assert own_server.hold().status == 200
    seen = look(own_server)
    assert seen["runs"] == NOTHING | {"admitted": 2, "cancelled": 1}
    assert seen["holds"] == {"admissionHeld": True, "executionHeld": True}
    assert seen["backlog"] >= 2
