"""What a user's type checker sees of the package: its public names have types that are known."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAST = 0.95


def test_public_types_are_known_to_pyright(tmp_path: Path) -> None:
    """`pyright --verifytypes`: at least 95% of the public symbols."""
    beside = Path(sys.executable).parent
    found = shutil.which("pyright", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip("needs pyright: pip install 'headwater[test]'")
    # It resolves imports by the first `python` of the path, in this mode whatever it is told.
    env = {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ.get('PATH', '')}", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [found, "--verifytypes", "headwater", "--ignoreexternal", "--outputjson"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if not ran.stdout.lstrip().startswith("{"):
        pytest.skip(f"pyright does not run here: {(ran.stderr or ran.stdout)[:200]!r}")
    report = json.loads(ran.stdout)["typeCompleteness"]
    unknown = [s["name"] for s in report["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert report["pyTypedPath"], "the package says that it is typed"
    assert report["completenessScore"] >= LEAST, unknown
