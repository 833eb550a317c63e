"""Measuring answers on judged questions."""
