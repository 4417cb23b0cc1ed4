"""Makes the expected output of each feature anew: `python -m tests.generator`; then read the difference."""

from __future__ import annotations

from tests.generator.test_expected import FEATURES
from tools.generator import generate

for feature in FEATURES:
    generate(feature / "spec", feature / "generated")
