"""Pictures in rows and columns, with labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

from ident.render.aliases import Uint8s


@dataclass(frozen=True)
class Grid:
    """How cells stand in a figure: in rows of `columns`, with labels above the columns and left of the rows."""

    columns: int
    across: tuple[str, ...] = ()
    down: tuple[str, ...] = ()

    def compose(self, cells: Sequence[Uint8s]) -> Image.Image:
        """One image of cells (H, W, 3) of one size."""
        height, width, _ = cells[0].shape
        font = ImageFont.load_default(size=13)
        left = max([44, *(int(font.getlength(text)) + 12 for text in self.down)]) if self.down else 0
        top = 20 if self.across else 0
        rows = -(-len(cells) // self.columns)
        figure = Image.new("RGB", (left + self.columns * width, top + rows * height), "white")
        for i, cell in enumerate(cells):
            figure.paste(Image.fromarray(cell), (left + i % self.columns * width, top + i // self.columns * height))
        pen = ImageDraw.Draw(figure)
        for i, text in enumerate(self.across):
            pen.text((left + (i + 0.5) * width, top / 2), text, "black", font, anchor="mm")
        for i, text in enumerate(self.down):
            pen.text((left - 6, top + (i + 0.5) * height), text, "black", font, anchor="rm")
        return figure
