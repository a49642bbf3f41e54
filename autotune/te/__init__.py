"""Tensor expressions and schedules."""
