"""Operations: what a store does, a module for each; every effect is ordered here.

They know the protocol of stages, never a kind of them.
"""
