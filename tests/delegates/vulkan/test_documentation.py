"""What the documentation says of models on Vulkan is what there is."""

import re
from pathlib import Path

from etarena.delegates.vulkan.operators.registry import all_operators

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "vulkan.md"


def test_the_table_of_operators_is_complete() -> None:
    section = PAGE.read_text().split("## Models on Vulkan")[1].split("\n## ")[0]
    table = section.split("| | operators |")[1].split("\n\n")[0]
    listed = re.findall(r"`([\w.]+)`", table)
    # An operator can stand in two rows: its overloads are of two kinds.
    assert set(listed) == {name.rpartition(".")[0].removeprefix("aten.") for name in all_operators()}
