"""`ident score`: how well a representation shows the factors behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from ident.benchmark.metrics import METRICS, Score, score_each
from ident.benchmark.metrics.lookup import known, load
from ident.benchmark.metrics.representation import Representation, blocks_of, of_dataset, of_latents
from ident.benchmark.registry import Slot, read_slot
from ident.cli.options import own
from ident.cli.progress import progress
from ident.cli.terminal import say, say_json, say_table, warn
from ident.render.errors import Impossible

EPILOG = """\b
Examples:
  ident score z.npy --data data/3dident-test
  ident score z.npy --data data/3dident-test --block position=x,y,z
  ident score z.npy --latents x.npy --kind 4=category --kind "3=circle(0, 1)"
  ident score z.npy --latents x.npy --metric mcc --metric dci --json
"""

SAMPLES = 15_000
"""Rows: 10,000 to fit on and 5,000 to test on, as the papers have them."""


def metric_names(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Metrics by name, which may be the user's, in the working directory."""
    for name in value:
        own(context, parameter, name)
        load(name)
    return tuple(dict.fromkeys(value))


def pairs_of(value: tuple[str, ...], option: str, example: str) -> dict[str, str]:
    """Options that are written name=value."""
    texts = {name.strip(): rest.strip() for name, equals, rest in (text.partition("=") for text in value) if equals}
    if len(texts) < len(value) or "" in texts or "" in texts.values():
        raise Impossible(f"--{option}: write each once and like {example}")
    return texts


@dataclass(frozen=True)
class Table:
    """What is printed: scores of a representation by metric, and why others have none."""

    representation: Representation
    blocks: Mapping[str, list[int]]
    scores: Mapping[str, Score]
    left_out: Mapping[str, str]

    def of_block(self, score: Score, block: str) -> float | None:
        """The mean score of the factors of a block, where each factor has one."""
        return fmean(score.per_latent[number] for number in self.blocks[block]) if score.per_latent else None

    @property
    def verdicts(self) -> list[str]:
        """A word on each score that says little."""
        samples, dim = self.representation.factors.shape
        words = (
            known(name).verdict(score.value, score.chance, samples=samples, dim=dim)
            for name, score in self.scores.items()
        )
        return [word for word in words if word]

    def describe(self) -> dict[str, Any]:
        """All of it, as JSON knows it."""
        (samples, dim), names = self.representation.factors.shape, self.representation.names
        outputs = self.representation.outputs.shape[1]
        return {
            "samples": samples,
            "outputs": outputs,
            "factors": list(names),
            "size": dim / outputs,
            "scores": {
                name: {
                    "value": score.value,
                    "low": score.low,
                    "high": score.high,
                    "chance": score.chance,
                    "factors": dict(zip(names, score.per_latent, strict=True)) if score.per_latent else {},
                    "blocks": {block: self.of_block(score, block) for block in self.blocks if score.per_latent},
                }
                for name, score in self.scores.items()
            },
            "left_out": dict(self.left_out),
            "verdicts": self.verdicts,
        }

    def say(self) -> None:
        """Print it as a table in percent, and a line for what says little."""
        names = self.representation.names
        rows = []
        for name, score in self.scores.items():
            parts = [self.of_block(score, block) for block in self.blocks]
            of_factors: Sequence[float | None] = score.per_latent or [None] * len(names)
            cells = ["" if part is None else f"{100 * part:.1f}" for part in (*parts, *of_factors)]
            interval = f"{100 * score.low:.1f} to {100 * score.high:.1f}"
            rows.append([name, f"{100 * score.value:.1f}", interval, f"{100 * score.chance:.1f}", *cells])
        say_table(["percent", "score", "95 %", "chance", *self.blocks, *names], rows)
        for verdict in self.verdicts:
            say(verdict)


@click.command(epilog=EPILOG)
@click.argument("representation", type=click.Path(path_type=Path))
@click.option("--data", metavar="DATA", help="The dataset whose images these rows are of, a folder or a URL.")
@click.option(
    "--latents", type=click.Path(path_type=Path), metavar="FILE", help="Or a .npy file of the factors, (n, d)."
)
@click.option("--index", type=click.Path(path_type=Path), metavar="FILE", help="A .npy file: of which row each row is.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="COLUMN=KIND",
    help="Of --latents: category, or circle(low, high), one turn; intervals else.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    callback=metric_names,
    metavar="NAME",
    help=f"Some of {', '.join(METRICS)}, or module:name of your own.  [default: all that can be]",
)
@click.option("--block", "blocks", multiple=True, metavar="NAME=FACTOR,...", help="The mean of these factors, too.")
@click.option(
    "--samples",
    type=click.IntRange(min=8),
    default=SAMPLES,
    show_default=True,
    help="Rows at most, drawn at random.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is random.")
@click.option("--json", "as_json", is_flag=True, help="Print the scores, as fractions, as one JSON object.")
def score(
    representation: Path,
    data: str | None,
    latents: Path | None,
    index: Path | None,
    kinds: tuple[str, ...],
    metrics: tuple[str, ...],
    blocks: tuple[str, ...],
    samples: int,
    seed: int,
    as_json: bool,
) -> None:
    """Score anybody's representation.

    REPRESENTATION is a .npy file (n, k): a row for each row of the dataset or of the factors, in their order. Each
    score comes with an interval, what chance gives for the same rows, and one for each factor where there is such;
    metrics that the factors do not allow are named, with the reason. docs/metrics.md says what each means, and when it
    misleads.
    """
    slots: dict[str, Slot] = {name: read_slot(text) for name, text in pairs_of(kinds, "kind", "3=category").items()}
    if data is not None and slots:
        raise Impossible("--kind: is for --latents; the factors of a dataset say what they are")
    members = {
        name: [one.strip() for one in text.split(",")]
        for name, text in pairs_of(blocks, "block", "style=hue,x").items()
    }
    if data is not None and latents is None:
        every = of_dataset(representation, data, index)
    elif latents is not None and data is None:
        every = of_latents(representation, latents, index, slots)
    else:
        raise Impossible("give --data, a dataset, or --latents, a .npy file of the factors, and not both")
    rows, constant = every.sampled(samples, seed=seed).varying()
    for name in constant:
        warn(f"{name}: has one value in these rows; left out")
    numbers = blocks_of(members, rows.names)
    usual = tuple(name for name in METRICS if not load(name).views)  # nobody says that these rows are views of pictures
    names, scores, left_out = metrics or usual, dict[str, Score](), dict[str, str]()
    with progress("scoring") as done:
        done(0, len(names), names[0])
        outcomes = score_each(names, rows.factors, rows.outputs, seed=seed, kinds=rows.kinds)
        for number, (name, outcome) in enumerate(outcomes, 1):
            if isinstance(outcome, Score):
                scores[name] = outcome
            elif metrics:
                raise outcome
            else:
                left_out[name] = str(outcome)
            done(number, len(names), names[number] if number < len(names) else "")
    for name, reason in left_out.items():
        warn(f"{name} is left out: {reason}")
    table = Table(rows, numbers, scores, left_out)
    if as_json:
        given = {"representation": str(representation), "data": data, "latents": latents and str(latents), "seed": seed}
        say_json(given | table.describe())
    else:
        table.say()
