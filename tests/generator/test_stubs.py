from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.generator import StubError, stub

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHOP = HERE / "successes" / "spec"


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def test_a_stub_makes_the_handler_and_the_test_where_they_are_missing(tmp_path: Path) -> None:
    made = stub(SHOP, tmp_path, "listGoods")
    assert made.written == (made.handler, made.test)
    assert made.handler == tmp_path / "handlers" / "shop" / "goods.py"
    assert made.handler.read_text("utf-8") == (
        '"""The tag goods of The shop."""\n'
        "\n"
        "from __future__ import annotations\n"
        "\n"
        "from generated.shop.operations import list_goods as list_goods_op\n"
        "from handlers.shop.app import App\n"
        "\n"
        "\n"
        "async def list_goods(_app: App, _request: list_goods_op.Request) -> list_goods_op.Response:\n"
        '    """List the goods."""\n'
        '    raise list_goods_op.Failure("This operation is not implemented yet.")\n'
    )
    assert made.test == tmp_path / "tests" / "handlers" / "shop" / "test_goods.py"
    assert (tmp_path / "handlers" / "shop" / "__init__.py").exists()


def test_a_stub_tells_what_to_add_to_the_service(tmp_path: Path) -> None:
    made = stub(SHOP, tmp_path, "listGoods")
    assert made.service == tmp_path / "handlers" / "shop" / "service.py"
    assert made.service_import == "from handlers.shop.goods import list_goods"
    assert made.service_line == "list_goods=partial(list_goods, app),"


def test_the_same_stub_again_changes_nothing(tmp_path: Path) -> None:
    made = stub(SHOP, tmp_path, "listGoods")
    before = (made.handler.read_bytes(), made.test.read_bytes())
    assert stub(SHOP, tmp_path, "listGoods").written == ()
    assert (made.handler.read_bytes(), made.test.read_bytes()) == before


def test_a_handler_that_is_written_is_never_overwritten(tmp_path: Path) -> None:
    handler = tmp_path / "handlers" / "shop" / "goods.py"
    handler.parent.mkdir(parents=True)
    handler.write_text("async def list_goods(*_: object) -> str:\n    return 'written by hand'\n", "utf-8")
    made = stub(SHOP, tmp_path, "listGoods")
    assert made.written == ()
    assert "written by hand" in handler.read_text("utf-8")
    assert not made.test.exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "import json\n\nfrom generated.shop.operations import get_good as get_op\n"
            "from handlers.shop.app import App\n",
            "import json\n\nfrom generated.shop.operations import get_good as get_op\n"
            "from generated.shop.operations import list_goods as list_goods_op\nfrom handlers.shop.app import App\n",
        ),
        (
            "from handlers.shop.app import App, Other\nfrom storage.goods import Goods\n",
            "from generated.shop.operations import list_goods as list_goods_op\n"
            "from handlers.shop.app import App, Other\nfrom storage.goods import Goods\n",
        ),
        (
            '"""What it does."""\n\nfrom typing import (\n    Any,\n)\n',
            '"""What it does."""\n\nfrom typing import (\n    Any,\n)\n\n'
            "from generated.shop.operations import list_goods as list_goods_op\nfrom handlers.shop.app import App\n",
        ),
        (
            '"""What it does."""\n',
            '"""What it does."""\n\n'
            "from generated.shop.operations import list_goods as list_goods_op\nfrom handlers.shop.app import App\n",
        ),
    ],
    ids=["beside its like", "before its like", "after the libraries", "after the docstring"],
)
def test_an_import_is_put_where_it_belongs(tmp_path: Path, before: str, after: str) -> None:
    handler = tmp_path / "handlers" / "shop" / "goods.py"
    handler.parent.mkdir(parents=True)
    handler.write_text(before, "utf-8")
    stub(SHOP, tmp_path, "listGoods")
    assert handler.read_text("utf-8").partition("\n\n\nasync def")[0] + "\n" == after


def test_stubs_are_clean_for_ruff(tmp_path: Path) -> None:
    for operation in ("listGoods", "getGood", "putGood", "removeGood", "streamChanges"):
        stub(SHOP, tmp_path, operation)
    config = str(ROOT / "pyproject.toml")
    for command in (("check", "--no-cache"), ("format", "--check", "--no-cache")):
        ended = run("ruff", *command, "--config", config, ".", cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout


def test_the_test_of_a_stub_asks_for_a_success_that_the_document_has(tmp_path: Path) -> None:
    made = stub(SHOP, tmp_path, "putGood")
    assert made.test.read_text("utf-8") == (
        "from __future__ import annotations\n"
        "\n"
        "from tests.support.examples import send_example\n"
        "from tests.support.gatehouse import Gatehouse\n"
        "\n"
        "\n"
        "def test_put_good_answers_its_example_with_a_success(server: Gatehouse) -> None:\n"
        '    # The "good" of the example has to exist: make one, and send it as {"good": ...}.\n'
        '    answer = send_example(server, "putGood")\n'
        '    assert answer.status in {200, 201}, f"putGood gives no success: {answer.body.decode()}"\n'
    )


@pytest.mark.parametrize(
    ("operation", "scheme"),
    [
        ("admitEvent", "registrySignature"),
        ("register", "joinToken"),
        ("reportJoinEvents", "clientCertificate"),
    ],
)
def test_the_test_of_a_stub_says_which_credential_the_example_lacks(
    tmp_path: Path, operation: str, scheme: str
) -> None:
    text = stub(ROOT / "spec", tmp_path, operation).test.read_text("utf-8")
    assert f"# The example has no credential for {scheme}: send one with it." in text


@pytest.mark.parametrize("operation", ["doctor", "getRegistration", "mintJoinToken"])
def test_the_operators_credential_needs_no_arrangement(tmp_path: Path, operation: str) -> None:
    assert "no credential" not in stub(ROOT / "spec", tmp_path, operation).test.read_text("utf-8")


def test_the_test_of_a_stub_says_nothing_of_what_it_need_not_arrange(tmp_path: Path) -> None:
    text = stub(SHOP, tmp_path, "streamChanges").test.read_text("utf-8")
    assert "#" not in text
    assert "assert answer.status == 200, f" in text


def test_an_unknown_operation_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(StubError, match="no document has an operation sellGood; there are getGood, listGoods"):
        stub(SHOP, tmp_path, "sellGood")
    assert list(tmp_path.iterdir()) == []


def test_an_operation_without_a_problem_of_the_server_s_own_has_no_stub(tmp_path: Path) -> None:
    with pytest.raises(StubError, match="documents no 5xx that a stub could raise"):
        stub(HERE / "parameters" / "spec", tmp_path, "findPapers")


def test_a_stub_raises_a_problem_that_needs_nothing_but_its_sentence(tmp_path: Path) -> None:
    made = stub(HERE / "problems" / "spec", tmp_path, "cook")
    assert 'raise cook_op.Fire("This operation is not implemented yet.")' in made.handler.read_text("utf-8")
