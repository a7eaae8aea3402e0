"""Call the command line in this process, on models that the tests write into a file."""

import json

import torch
from click.testing import CliRunner, Result

from etarena.cli import cli

MODELS = """
import torch


class TwoInputs(torch.nn.Module):
    def forward(self, left, right):
        return torch.relu(left) + right, (left * 2).sum(dim=0)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.total += x.sum(dim=0)
        return self.total * 1


def perceptron():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    rows = torch.export.Dim("rows", min=1, max=5000)
    return model, (torch.randn(5, 4),), None, ({0: rows},)


def two_inputs():
    return TwoInputs(), (torch.randn(5, 2), torch.randn(5, 2))


def counter():
    return Counter(), (torch.randn(3, 2),), {}, ({0: torch.export.Dim("rows")},)


def prints():
    print("a model that talks")
    return perceptron()


def not_a_model():
    return 7


constant = 7
"""


def etarena_command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def answer(*arguments: object) -> dict:
    result = etarena_command(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def failure(*arguments: object, code: int = 1) -> str:
    """The one line that a failing command prints on stderr after the lines of its steps."""
    result = etarena_command(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def perceptron() -> torch.nn.Module:
    namespace: dict = {}
    exec(MODELS, namespace)
    return namespace["perceptron"]()[0]
