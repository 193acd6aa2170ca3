"""Uniform points in a ball of R^d from shared coins: the first of many shifted lattices that hits the ball.

The lattice is L = {x in Z^d : x mod 2 in C, Σ x ≡ 0 mod 4}, where C is the greedy binary code of length d and
distance 8 (the beginning of the Golay code). Its points are at least √8 apart, so a ball of radius √2 holds
at most one of them, and holds one in a share V_d √2^d/2^(d−k+1) of all shifts (k the dimension of C): .62 at
d = 4, .25 at d = 8, .015 at d = 16 and .0032 at d = 20, close to the densest lattices known.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from holdfast.replicable._elementary import Floats
from holdfast.replicable._tape import Tape

__all__ = ["MOST_DIMENSIONS", "density", "point_in_ball"]

MOST_DIMENSIONS = 20
RADIUS_SQUARED = 2.0
_BASIS = (0xFF, 0xF0F, 0x3333, 0x5555, 0x9669, 0x30356, 0x50563, 0x9063A)
_SLACK = 2.0**-20
_AT_ONCE = 64


@cache
def _code(d: int) -> Floats:
    """The codewords of length ``d``, one a row."""
    words = [0]
    for vector in _BASIS:
        if vector < 2**d:
            words += [word ^ vector for word in words]
    return np.array([[word >> i & 1 for i in range(d)] for word in words], dtype=np.float64)


def density(d: int) -> float:
    """The share of shifts of the lattice that put a point into a given ball of radius √2."""
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * RADIUS_SQUARED ** (d / 2)
    return float(volume * len(_code(d)) / 2.0 ** (d + 1))


def point_in_ball(centre: Floats, tape: Tape) -> Floats:
    """A point uniform in the ball of radius √2 about ``centre``.

    Guarantee: two sides whose balls A and B share the tape get the same point, bit for bit, with probability
    at least |A∩B|/|A∪B|; it takes 1/``density(d)`` shifts on average.
    Assumes: 2 ≤ d ≤ 20 and |centre| < 2³⁵, so that the machine's rounding is far below the radius.
    Reference: Holdfast; rejection-sampled dithering after Ling and Li 2023.
    """
    d = centre.size
    at_once = min(_AT_ONCE, math.ceil(2.0 / density(d)))
    begin = 0
    while True:
        shifts = 4.0 * tape.uniforms(at_once * d, start=begin * d).reshape(at_once, d)
        hit = _first_hit(centre, shifts)
        if hit is not None:
            point, shift = hit
            return point + shift
        begin += at_once


def _first_hit(centre: Floats, shifts: Floats) -> tuple[Floats, Floats] | None:
    targets = centre - shifts
    code = _code(centre.size)
    # Where a codeword has 0 the nearest even number is |e| away, where it has 1 the nearest odd one 1 − |e|.
    away = np.abs(targets - 2.0 * np.round(0.5 * targets))
    rough = (away * away).sum(axis=1)[:, None] + (1.0 - 2.0 * away) @ code.T
    for i, j in np.argwhere(rough <= RADIUS_SQUARED + _SLACK):
        point = _nearest(targets[i], code[j])
        gap = targets[i] - point
        if float((gap * gap).sum()) < RADIUS_SQUARED:
            return point, shifts[i]
    return None


def _nearest(target: Floats, word: Floats) -> Floats:
    """The point of L nearest to ``target`` among those that are ``word`` modulo 2."""
    point: Floats = word + 2.0 * np.round(0.5 * (target - word))
    if float(point.sum()) % 4.0 != 0.0:
        # The sum is even; moving the least certain coordinate to its other neighbour mends it at least cost.
        gap = target - point
        worst = int(np.argmax(np.abs(gap)))
        point[worst] += math.copysign(2.0, gap[worst])
    return point
