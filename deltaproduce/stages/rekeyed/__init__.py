"""Stages of a feeder's rows under other keys: indexes of them, and what events say of a key."""
