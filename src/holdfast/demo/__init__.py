"""The story the demo tells: honest questions, then a search for signal in noise, with and without a guard."""

from holdfast.demo._story import TRUTH, Claim, Stones, Story, Told, tell

__all__ = ["TRUTH", "Claim", "Stones", "Story", "Told", "tell"]
