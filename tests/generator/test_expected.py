from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tools.generator import check, report

FEATURES: Final = sorted(path.parent for path in Path(__file__).parent.glob("*/spec"))


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: str(feature.name))
def test_each_feature_is_generated_as_expected(feature: Path) -> None:
    findings = check(feature / "spec", feature / "generated")
    assert not findings, report(findings)
