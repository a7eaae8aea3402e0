"""``etarena export --memory static``."""

import json
from pathlib import Path

from ...helpers.command_line import etarena_command


def test_export_fixes_offsets_for_the_stock_runtime(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "static.pte"
    done = etarena_command("export", f"{models}:perceptron", "-o", path, "--memory", "static", "--json")
    assert done.exit_code == 0, done.stderr
    data = json.loads(done.stdout)
    (method,) = data["methods"]
    (pool,) = method["plan"]["pools"]
    # 5000 rows of 8, before and after the activation.
    assert pool["nbytes"] == pool["lower_bound"] == 2 * 5000 * 8 * 4
    assert data["bytes"] == path.stat().st_size
    assert b"etarena" not in path.read_bytes().lower()


def test_export_refuses_to_explain_or_to_fix_what_has_no_bound(models: Path, tmp_path: Path) -> None:
    done = etarena_command("export", f"{models}:perceptron", "--memory", "static", "--explain")
    assert (done.exit_code, "leave --memory static out" in done.stderr) == (2, True)
    path = tmp_path / "counter.pte"
    done = etarena_command("export", f"{models}:counter", "-o", path, "--memory", "static")
    assert done.exit_code == 1
    assert "rows has no upper bound" in done.stderr
    assert not path.exists()


def test_export_refuses_the_backend_that_the_stock_runtime_lacks(models: Path, tmp_path: Path) -> None:
    path = tmp_path / "static.pte"
    done = etarena_command("export", f"{models}:perceptron", "-o", path, "--memory", "static", "--backend", "vulkan")
    assert (done.exit_code, "the backend EtarenaVulkan is etarena's" in done.stderr) == (1, True)
    assert not path.exists()
