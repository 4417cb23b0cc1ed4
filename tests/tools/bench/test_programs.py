from pathlib import Path

import pytest
import yaml

from tools.bench.programs import gatehouse, peer
from tools.bench.servers import BenchError


def test_gatehouse_serves_a_listener_and_control_beside_it_under_settings_of_its_own(tmp_path: Path) -> None:
    program = gatehouse(tmp_path / "state", "join", settings={"join": {"tls": False, "trustedProxies": ["127.0.0.1"]}})
    assert {"--listener=control", "--listener=join"} <= set(program.command)
    assert program.environment["GATEHOUSE_JOIN_BIND"] == f"127.0.0.1:{program.port}"
    assert yaml.safe_load((program.folder / "gatehouse.yaml").read_text())["join"]["tls"] is False
    assert program.database.exists()


def test_a_folder_that_cannot_be_made_is_told_with_what_init_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(BenchError, match=r"init .* ended with 1: .*state"):
        gatehouse(tmp_path / "state", "control")


@pytest.mark.parametrize("tls", [None, ["--ssl-certfile=c.pem"]])
def test_a_peer_speaks_tls_where_it_is_given_options_for_it(tmp_path: Path, tls: list[str] | None) -> None:
    program = peer("limit", "join", tmp_path / "limit", {"BENCH_X": "y"}, tls)
    assert program.tls is (tls is not None)
    assert set(tls or ["--http=httptools"]) <= set(program.command)
    assert program.environment["BENCH_X"] == "y"
