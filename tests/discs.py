"""A world of a user's own: a disc with a dark spot at its rim, of three colours."""

DISCS = '''
import numpy as np
from ident.render.worlds import Category, Circle, Factor, Interval, World

COLOURS = {"red": (220, 40, 40), "green": (40, 180, 60), "blue": (50, 80, 220)}


def picture(values, size):
    """A disc with a dark spot at its rim."""
    x, y, turn, colour = values
    across, down = np.meshgrid(np.linspace(-1, 1, size), np.linspace(-1, 1, size))
    image = np.full((size, size, 3), 255, np.uint8)
    image[np.hypot(across - x, down - y) < 0.3] = list(COLOURS.values())[int(colour)]
    image[np.hypot(across - x - 0.3 * np.cos(turn), down - y - 0.3 * np.sin(turn)) < 0.1] = 0
    return image


world = World("discs", (
    Factor("x", Interval(-0.6, 0.6)),
    Factor("y", Interval(-0.6, 0.6)),
    Factor("turn", Circle(0, 1), unit="rad", scale=2 * np.pi),
    Factor("colour", Category(tuple(COLOURS))),
), picture)
'''
