"""Fixtures of the command line's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..helpers.command_line import MODELS, etarena_command


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "models_of_the_cli_tests.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def exported(models: Path) -> Callable[..., Path]:
    """Export one of the models, once for all tests."""

    def export(name: str, *options: str) -> Path:
        path = models.parent / f"{name}{'_'.join(options).replace(':', '-')}.pte"
        if not path.exists():
            result = etarena_command("export", f"{models}:{name}", "-o", path, *options)
            assert result.exit_code == 0, result.stderr
        return path

    return export
