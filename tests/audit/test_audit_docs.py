"""The examples in the docstrings run."""

from __future__ import annotations

import pkgutil

import pytest

import holdfast.audit
from holdfast.audit import attacks

MODULES = [f"holdfast.audit.{module.name}" for module in pkgutil.iter_modules(holdfast.audit.__path__)] + [
    f"holdfast.audit.attacks.{module.name}" for module in pkgutil.iter_modules(attacks.__path__)
]


@pytest.mark.parametrize("name", attacks.__all__)
def test_every_public_name_of_the_attacks_says_what_it_does(name):
    assert (getattr(attacks, name).__doc__ or "").strip()
