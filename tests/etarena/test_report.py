"""Pictures of memory plans: their numbers, their colours, and that the page needs nothing from outside."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib import image

from etarena import Error, MemoryPlan
from etarena.memory_plan import PlannedBuffer
from etarena.report.drawing import draw
from etarena.report.entries import MapEntry, live_bytes
from etarena.report.families import FAMILIES, SCRATCH, SHOWN, family_of, family_of_buffer
from etarena.report.growth import Growth
from etarena.report.page import Table, write_page
from etarena.report.units import bytes_text, unit_for

MIB = 1 << 20


def small_plan(name: str = "conv") -> MemoryPlan:
    """Three buffers: the first and the second overlap in time, the third takes the first's place."""
    buffers = (
        PlannedBuffer(name, 0, 4 * MIB, 0, 2, 6, (1, 1024, 1024), "aten::convolution.out"),
        PlannedBuffer("relu", 4 * MIB, 2 * MIB, 1, 3, 6, (1, 512, 1024), "aten::relu.out"),
        PlannedBuffer("product", 0, 3 * MIB, 2, 4, 6, (1, 768, 1024), "aten::bmm.out"),
    )
    labels = ("aten::convolution.out", "aten::relu.out", "aten::bmm.out", "aten::sum.IntList_out")
    return MemoryPlan("forward", ((1, 3, 8, 8),), 6 * MIB, 6 * MIB, 4000, 0, 1500, buffers, labels)


EMPTY = MemoryPlan("forward", ((1,),), 0, 0, 4, 0, 900, (), ("XnnpackBackend",))


def test_live_bytes_are_the_sums_at_each_instruction() -> None:
    assert live_bytes(small_plan()) == [4 * MIB, 6 * MIB, 5 * MIB, 3 * MIB]
    assert max(live_bytes(small_plan())) == small_plan().lower_bound
    assert live_bytes(EMPTY) == [0]


@pytest.mark.parametrize(
    ("operator", "family"),
    [
        ("aten::convolution.out", "convolution"),
        ("aten::addmm.out", "matrix product"),
        ("aten::bmm.out", "matrix product"),
        ("aten::_softmax.out", "softmax"),
        ("aten::native_layer_norm.out", "normalisation"),
        ("aten::_native_batch_norm_legit_no_training.out", "normalisation"),
        ("aten::mean.out", "reduction"),
        ("aten::amax.out", "reduction"),
        ("aten::upsample_bilinear2d.vec_out", "pooling, resizing"),
        ("etarena::resize2d_pixels.out", "pooling, resizing"),
        ("aten::permute_copy.out", "data movement"),
        ("dim_order_ops::_to_dim_order_copy.out", "data movement"),
        ("dim_order_ops::_clone_dim_order.out", "data movement"),
        ("aten::full.out", "creation"),
        ("aten::add.out", "element by element"),
        ("aten::maximum.out", "element by element"),
        ("XnnpackBackend", "delegate"),
        ("", "other"),
    ],
)
def test_operators_have_families(operator: str, family: str) -> None:
    assert family_of(operator).name == family


def test_family_colours_differ() -> None:
    assert len({family.colour for family in SHOWN}) == len(SHOWN) == len(FAMILIES) + 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (640 * 1024, "640 KiB"),
        (1_061_683_200, "1012 MiB"),
        (3 << 30, "3 GiB"),
    ],
)
def test_bytes_are_written_in_powers_of_1024(count: int, text: str) -> None:
    assert bytes_text(count) == text


def test_the_unit_of_an_axis_fits_its_largest_value() -> None:
    assert unit_for(5 * MIB) == ("MiB", MIB)
    assert unit_for(0) == ("B", 1)


def colours_in(path: Path) -> set[tuple[int, ...]]:
    pixels = (image.imread(path)[:, :, :3] * 255).round().astype(int)
    return {tuple(pixel) for pixel in pixels.reshape(-1, 3)}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[start : start + 2], 16) for start in (1, 3, 5))


def test_the_png_shows_each_family_of_the_plan_and_no_other(tmp_path: Path) -> None:
    draw(tmp_path / "map.png", [MapEntry("Model", "8 x 8", small_plan())], dpi=60)
    seen = colours_in(tmp_path / "map.png")
    used = {family_of(buffer.definition) for buffer in small_plan().buffers}
    assert {family.name for family in FAMILIES if rgb(family.colour) in seen} == {family.name for family in used}


def plan_with_scratch() -> MemoryPlan:
    """A delegate's result, and above it the scratch that its call works in."""
    buffers = (
        PlannedBuffer("call", 0, MIB, 0, 2, 6, (512, 512), "XnnpackBackend"),
        PlannedBuffer("scratch", MIB, 3 * MIB, 0, 1, 0, (3 * MIB,), "XnnpackBackend", "scratch", "XnnpackBackend"),
        PlannedBuffer("scratch of mine", MIB, MIB, 1, 2, 6, (512, 512), "aten::relu.out"),
    )
    return MemoryPlan("forward", ((1,),), 4 * MIB, 4 * MIB, 0, 0, 9, buffers, ("XnnpackBackend", "aten::relu.out"))


def test_scratch_has_a_colour_and_a_legend_entry_of_its_own(tmp_path: Path) -> None:
    result, scratch, named_like_it = plan_with_scratch().buffers
    assert family_of_buffer(scratch) is SCRATCH
    assert family_of_buffer(result).name == "delegate"
    assert family_of_buffer(named_like_it).name == "element by element"
    assert plan_with_scratch().scratch_bytes == 3 * MIB
    draw(tmp_path / "map.png", [MapEntry("Model", "1", plan_with_scratch())], dpi=60)
    assert rgb(SCRATCH.colour) in colours_in(tmp_path / "map.png")
    draw(tmp_path / "map.svg", [MapEntry("Model", "1", plan_with_scratch())])
    assert f"<!-- {SCRATCH.name} -->" in (tmp_path / "map.svg").read_text()
    draw(tmp_path / "without.svg", [MapEntry("Model", "1", small_plan())])
    assert f"<!-- {SCRATCH.name} -->" not in (tmp_path / "without.svg").read_text()
    write_page(tmp_path / "map.html", [MapEntry("Model", "1", plan_with_scratch())])
    data = page_data(tmp_path / "map.html")
    families = [data["families"][buffer["family"]] for buffer in data["plans"][0]["buffers"]]  # type: ignore
    assert [family["name"] for family in families] == ["delegate", SCRATCH.name, "element by element"]
    assert families[1]["colour"] == SCRATCH.colour


def test_the_svg_names_model_size_and_figures(tmp_path: Path) -> None:
    draw(tmp_path / "map.svg", [MapEntry("Model", f"{side} x {side}", small_plan()) for side in (8, 9, 10)], "A title")
    text = (tmp_path / "map.svg").read_text()
    for words in ("A title", "Model, 8 x 8", "Model, 10 x 10", "peak 6 MiB, 1.000 x lower bound, 3 buffers"):
        assert f"<!-- {words} -->" in text


def test_a_plan_without_buffers_can_be_drawn(tmp_path: Path) -> None:
    draw(tmp_path / "map.png", [MapEntry("Model", "1", EMPTY)], dpi=40)
    write_page(tmp_path / "map.html", [MapEntry("Model", "1", EMPTY)])
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert page_data(tmp_path / "map.html")["plans"][0]["buffers"] == []


GROWTH = Growth("Model", [64, 4096], ["8 x 8", "64 x 64"], [40_000, 2 * MIB], [9 * MIB, 10 * MIB])


def test_growth_has_a_panel_and_a_chart(tmp_path: Path) -> None:
    entries = [MapEntry("Model", "8 x 8", small_plan())]
    draw(tmp_path / "map.svg", entries, growth=[GROWTH])
    assert "<!-- Memory follows the input -->" in (tmp_path / "map.svg").read_text()
    write_page(tmp_path / "map.html", entries, growth=[GROWTH])
    (line,) = page_data(tmp_path / "map.html")["growth"]
    assert line["sizes"] == [64, 4096]
    assert line["labels"] == ["8 x 8", "64 x 64"]
    assert line["total"] == [40_000, 2 * MIB]
    assert line["reserved"] == [9 * MIB, 10 * MIB]


class Page(HTMLParser):
    """Every attribute that could load something, the scripts, and the text of table cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.cells: list[str] = []
        self.open = ""
        self.attributes: dict[str, str | None] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open, self.attributes = tag, dict(attrs)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")] + [tag] * (tag == "link")

    def handle_data(self, data: str) -> None:
        if self.open == "script":
            self.scripts.append((self.attributes, data))
        elif self.open in ("td", "th"):
            self.cells.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.open = ""


def page_data(path: Path) -> dict[str, list[dict[str, object]]]:
    parsed: dict[str, list[dict[str, object]]] = json.loads(
        next(data for attributes, data in Page(path.read_text()).scripts if attributes.get("id") == "data")
    )
    return parsed


def test_the_page_is_self_contained_and_holds_the_plan(tmp_path: Path) -> None:
    table = Table("Results", ["model", "bytes"], [["a < b", "1"]], "All measured.")
    write_page(tmp_path / "map.html", [MapEntry("Model", "8 x 8", small_plan(), "A note.")], "Title", tables=[table])
    text = (tmp_path / "map.html").read_text()
    page = Page(text)
    assert page.links == []
    assert not re.search(r"@import|url\(", text.partition("</style>")[0])
    assert any("plotly.js v" in data for _, data in page.scripts)
    assert page.cells == ["model", "bytes", "a < b", "1"]
    assert not re.search(r"\{\{[A-Z]+\}\}", text)
    plan = page_data(tmp_path / "map.html")["plans"][0]
    assert (plan["group"], plan["label"], plan["note"]) == ("Model", "8 x 8", "A note.")
    assert (plan["peak"], plan["bound"]) == (6 * MIB, 6 * MIB)
    assert plan["live"] == [4 * MIB, 6 * MIB, 5 * MIB, 3 * MIB]
    assert plan["buffers"][0] == {  # type: ignore[index]
        "name": "conv",
        "operator": "aten::convolution.out",
        "family": 0,
        "type": "float32[1, 1024, 1024]",
        "offset": 0,
        "bytes": 4 * MIB,
        "first": 0,
        "last": 2,
    }


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>{{CODE}}"
    write_page(tmp_path / "map.html", [MapEntry(evil, evil, small_plan(evil))], evil, lead=evil)
    write_page(tmp_path / "tame.html", [MapEntry("Model", "1", small_plan())])
    page, tame = (Page((tmp_path / name).read_text()) for name in ("map.html", "tame.html"))
    assert len(page.scripts) == len(tame.scripts) == 3
    assert page_data(tmp_path / "map.html")["plans"][0]["buffers"][0]["name"] == evil  # type: ignore[index]


@pytest.mark.parametrize("write", [draw, write_page])
def test_nothing_to_draw_is_an_error(tmp_path: Path, write: object) -> None:
    with pytest.raises(Error, match="at least one plan"):
        write(tmp_path / "map.png", [])  # type: ignore[operator]


def test_plans_that_nobody_could_tell_apart_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(Error, match="two plans of 'Model' are both labelled '8 x 8'"):
        write_page(tmp_path / "map.html", [MapEntry("Model", "8 x 8", small_plan())] * 2)
    assert not (tmp_path / "map.html").exists()


@pytest.mark.parametrize(("write", "package"), [(draw, "matplotlib"), (write_page, "plotly")])
def test_a_missing_package_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, package: str
) -> None:
    for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Error, match=rf"needs {package}.*pip install etarena\[demo\]"):
        write(tmp_path / "map.png", [MapEntry("Model", "8 x 8", small_plan())])  # type: ignore[operator]
