"""Shared fixtures: every random test takes its seed from here, and any seed from 0 to 99 must pass."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("holdfast", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("holdfast")


@pytest.fixture
def seed() -> int:
    """The seed of this run, 0 unless ``HOLDFAST_SEED`` says otherwise."""
    value = int(os.environ.get("HOLDFAST_SEED", "0"))
    if not 0 <= value <= 99:
        raise ValueError(f"HOLDFAST_SEED must be in 0..99, got {value}")
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator seeded by :func:`seed`."""
    return np.random.default_rng(seed)
