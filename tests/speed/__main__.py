"""Print a JSON object a line for every ratio of a group, or of all: python -m tests.speed GROUP."""

from __future__ import annotations

import json
import sys

from tests.speed import imports, loader, losses, metrics, pairs, quality, render, sprites, stage, train, transfer

GROUPS = {
    "imports": imports.measure,
    "render": render.measure,
    "quality": quality.measure,
    "stage": stage.measure,
    "loader": loader.measure,
    "transfer": transfer.measure,
    "pairs": pairs.measure,
    "losses": losses.measure,
    "metrics": metrics.measure,
    "train": train.measure,
    "sprites": sprites.measure,
}


def main() -> None:
    """Run one group, or all."""
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    if what not in {"all", *GROUPS}:
        raise SystemExit(f"WHAT={what}: choose from all, {', '.join(GROUPS)}")
    for name, measure in GROUPS.items():
        if what in ("all", name):
            for result in measure():
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
