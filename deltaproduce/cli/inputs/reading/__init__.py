"""Reading: how one file becomes rows in the types that its source declares.

There is one reader for both engines. Each value of a declared column fits its type without loss, or
the file is refused with the line, the column and the value. `reader` composes the rest: a module
reads each format, in parts that fit in memory; `texts` and `times` say what a text is in each type.
"""
