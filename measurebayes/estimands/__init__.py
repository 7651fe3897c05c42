"""What is read off a posterior."""

from __future__ import annotations

from measurebayes.estimands.items import item_parameters
from measurebayes.estimands.scoring import score, score_table

__all__ = ["item_parameters", "score", "score_table"]
