from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.gatehouse import Gatehouse
from tests.support.programs import needs

# Nothing of Chromium's own may ask for the internet, which is not there.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=20000",
    "--dump-dom",
)


@needs("chromium")
def test_a_browser_without_internet_renders_the_document_as_openapi_3_1(server: Gatehouse, tmp_path: Path) -> None:
    page = subprocess.run(
        ["chromium", *FLAGS, f"--user-data-dir={tmp_path}", f"{server.control}/docs"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert "OAS 3.1" in page.stdout
    assert "Start a workflow from a signed product event" in page.stdout
    assert "Unable to render" not in page.stdout
