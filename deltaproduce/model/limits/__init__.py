"""Limits: the sizes up to which a step is done in which way, and the machine that sets them."""

from deltaproduce.model.limits.sizes import NEARLY_ALL, Limits

__all__ = ["NEARLY_ALL", "Limits"]
