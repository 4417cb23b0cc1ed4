from __future__ import annotations

import re
from typing import Any

from tests.support.gatehouse import Gatehouse, NewServer
from tests.support.pretended import CALLING, FAR, leave_in_doubt, leave_in_hand, leave_waiting, receipts_at

NOTHING = {"admitted": 0, "running": 0, "waiting": 0, "uncertain": 0, "completed": 0, "failed": 0, "cancelled": 0}


def cancel(server: Gatehouse, run: str) -> None:
    assert server.operate("POST", f"/v1/runs/{run}/cancel", {"reason": "A test."}).status == 200


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
    cancel(own_server, runs[0])
    assert own_server.hold().status == 200
    seen = look(own_server)
    assert seen["runs"] == NOTHING | {"admitted": 2, "cancelled": 1}
    assert seen["holds"] == {"admissionHeld": True, "executionHeld": True}
    assert seen["backlog"] == 2


def test_what_is_due_and_what_is_uncertain_is_told_of_runs_that_have_not_ended(new_server: NewServer) -> None:
    server = new_server()
    server.configure(connections={"crm": receipts_at("http://127.0.0.1:9")})
    server.apply(CALLING)
    with server:
        leave_in_hand(server, server.deliver().run)
        waiting = leave_waiting(server, server.deliver().run, FAR)
        in_doubt = [leave_in_doubt(server, server.deliver().run) for _ in range(2)]
        cancel(server, in_doubt[0])
        seen = look(server)
        assert seen["runs"] == NOTHING | {"running": 1, "waiting": 1, "uncertain": 1, "cancelled": 1}
        assert (seen["uncertain"], seen["backlog"]) == (1, 0)
        due = server.operate("GET", f"/v1/runs/{waiting}").json["nextDueAt"]
        assert seen["oldestDueAt"] == due
