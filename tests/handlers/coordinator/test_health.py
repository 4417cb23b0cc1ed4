from __future__ import annotations

from tests.support.gatehouse import Gatehouse


def test_a_process_that_answers_lives(server: Gatehouse) -> None:
    answer = server.send("GET", "/health")
    assert answer.status == 200
    assert answer.json == {"live": True}


def test_a_server_whose_database_answers_is_ready(server: Gatehouse) -> None:
    answer = server.send("GET", "/ready")
    assert answer.status == 200
    assert answer.json == {"ready": True}


def test_probes_want_no_credential_and_mind_none(server: Gatehouse) -> None:
    for path in ("/health", "/ready"):
        assert server.send("GET", path, {"Authorization": "Bearer wrong"}).status == 200


def test_a_probe_may_ask_for_the_head_alone(server: Gatehouse) -> None:
    for path in ("/health", "/ready"):
        head, whole = server.send("HEAD", path), server.send("GET", path)
        assert head.status == 200
        assert head.header("Content-Length") == whole.header("Content-Length")


def test_a_server_whose_database_is_away_lives_and_is_not_ready_until_it_is_back(own_server: Gatehouse) -> None:
    file = own_server.state / "gatehouse.db"
    away = file.rename(file.with_name("away.db"))
    assert own_server.send("GET", "/health").status == 200
    assert own_server.send("GET", "/ready").outcome == (503, "service.unavailable")
    away.rename(file)
    assert own_server.send("GET", "/ready").status == 200


def test_a_held_server_is_ready(own_server: Gatehouse) -> None:
    assert own_server.hold().status == 200
    assert own_server.send("GET", "/ready").status == 200
