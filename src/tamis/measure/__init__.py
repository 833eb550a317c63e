"""Measuring answers against judgements: judged sets, metrics, comparisons, pictures."""
