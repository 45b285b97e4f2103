"""Operations: the store's operations, one module each; every effect is ordered here.

They know the protocol of stages, never a particular kind of stage.
"""
