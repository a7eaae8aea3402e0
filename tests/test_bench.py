"""The benchmarks' own arithmetic, and one pass through them on the smallest model, where nothing is timed."""

import os
import subprocess
import sys
from pathlib import Path

from bench.machine import describe
from bench.results import results
from bench.sections import RESULTS, merged, write_sections
from bench.side_by_side import in_turn, median_ratio, rounds_within

ROOT = Path(__file__).parent.parent

BENCH = {
    "benchmarks": [
        {
            "name": "test_repeated_shape[bert]",
            "stats": {"median": 1e-3},
            "extra_info": {
                "model": "BERT",
                "backend": "CPU kernels",
                "size": [64],
                "rounds": 100,
                "median_us": {"etarena": 990.0, "stock dynamic": 1000.0, "stock static": 900.0},
                "against_dynamic": 0.99,
                "against_static": 1.1,
            },
        },
        {
            "name": "test_memory_stays_flat[bert]",
            "stats": {"median": 1e-3},
            "extra_info": {
                "model": "BERT",
                "backend": "CPU kernels",
                "calls": 10000,
                "shapes": 1000,
                "resident": [10 << 20, 10 << 20],
                "growth": 4096,
            },
        },
        {
            "name": "test_etensor_interop",
            "stats": {"median": 5e-7},
            "extra_info": {"ns": {"torch to ETensor": 500.4, "ETensor to torch": 600.0}, "copied": 0},
        },
        {
            "name": "test_etensor_input",
            "stats": {"median": 5e-7},
            "extra_info": {"ns_an_input": {"ETensor": 70.0, "torch.Tensor": 430.0}},
        },
    ]
}


def test_ways_take_turns_and_start_in_turn() -> None:
    calls: list[str] = []
    samples = in_turn({name: lambda name=name: calls.append(name) for name in "abc"}, rounds=3)
    assert "".join(calls) == "abcabc" + "abc" + "bca" + "cab"
    assert {name: len(times) for name, times in samples.items()} == {"a": 3, "b": 3, "c": 3}


def test_the_ratio_pairs_samples_of_one_round() -> None:
    assert median_ratio({"one": [10, 300, 4], "two": [10, 100, 2]}, "one", "two") == 2


def test_rounds_have_limits() -> None:
    assert rounds_within(lambda: None, seconds=1000, most=50) == 50
    assert rounds_within(lambda: None, seconds=0, least=7) == 7


def test_results_hold_the_figures_and_the_machine() -> None:
    text = results(BENCH, None, [("cores", "2")])
    assert "| BERT (CPU kernels) | 64 | 990.0 | 1000.0 | 900.0 | 0.990 | 1.100 | 100 |" in text
    assert "BERT (CPU kernels), 10,000 calls with 1,000 distinct shapes." in text
    assert "growth from the first tenth to the last: 4 KiB." in text
    assert "| cores | 2 |" in text
    assert "0 bytes were copied." in text
    assert "| torch to ETensor | 500 |" in text
    assert "costs 70 ns as ETensor, 430 ns as torch.Tensor" in text
    assert "## Demo" not in text


def test_results_show_the_demo() -> None:
    size = {
        "size": [64],
        "error": 1e-6,
        "arena_bytes": 2048,
        "lower_bound_bytes": 2000,
        "ratio": 1.024,
        "total_bytes": 4096,
        "stock_bytes": 1 << 20,
        "plan_ns": 50_000,
        "run_seconds": [0.003, 0.001, 0.002],
    }
    planned = size | {"size": [3000], "error": None, "run_seconds": []}
    demo = {
        "seconds": 100.4,
        "models": [{"title": "BERT", "backend": "CPU kernels", "stock_bytes": 1 << 20, "sizes": [size, planned]}],
    }
    text = results({"benchmarks": []}, demo, [])
    row = "| BERT (CPU kernels) | 64 | 1.0e-06 | 2 KiB | 1.95 KiB | 1.0240 | 4 KiB | 1 MiB | 50 | 2.0 |"
    assert row in text
    assert "| 3000 | planned only |" in text
    assert "took 100 s" in text


def test_a_measurement_replaces_its_own_sections_only(tmp_path: Path) -> None:
    path = tmp_path / "RESULTS.md"
    write_sections("# Results\n\nOn Monday.\n\n## A\n\nold a\n\n## B\n\n### part\n\nold b\n", path)
    write_sections("## A\n\nnew a\n\n## C\n\nc\n", path)
    assert path.read_text() == ("# Results\n\nOn Monday.\n\n## A\n\nnew a\n\n## B\n\n### part\n\nold b\n\n## C\n\nc\n")
    write_sections("# Results\n\nOn Tuesday.\n", path)
    assert path.read_text().startswith("# Results\n\nOn Tuesday.\n\n## A\n")


def test_results_leave_the_sections_of_others_alone() -> None:
    old = "# Results\n\n## Leaks\n\nmany\n\n## Heap\n\nfast\n"
    text = merged(old, results(BENCH, None, []))
    assert "many" not in text
    assert text.index("## Leaks") < text.index("## Heap\n\nfast\n") < text.index("## A repeated shape")


def test_the_file_of_results_is_made_of_sections() -> None:
    text = RESULTS.read_text()
    assert merged(text, "") == text
    assert {"## A repeated shape", "## A new shape", "## Leaks", "## Demo", "## Heap"} <= set(text.splitlines())


def test_the_machine_is_described_without_its_name() -> None:
    described = dict(describe())
    assert int(described["cores"]) > 0
    assert int(described["memory"].removesuffix(" GiB")) > 0
    assert "executorch 1.5.1" in described["packages"]


def test_benchmarks_run_once_on_the_smallest_model() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "bench", "-k", "embedding_linear", "--benchmark-disable"]
    # The run is one of its own, not a worker of this one, whose variables would switch the plugin off with a warning.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout
