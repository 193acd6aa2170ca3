"""What this package is called where it is installed from, and the commands that install it.

The package is imported as ``holdfast`` and installed as ``holdfast-guard``, because ``holdfast`` on the
public index is another project. Every hint that tells people what to install comes from here.
"""

from __future__ import annotations

__all__ = ["DISTRIBUTION", "pip_install"]

DISTRIBUTION = "holdfast-guard"


def pip_install(*extras: str) -> str:
    """The command that installs Holdfast with these extras: ``pip install 'holdfast-guard[plots]'``.

    Args:
        extras: The extras to install.
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'" if extras else f"pip install {DISTRIBUTION}"
