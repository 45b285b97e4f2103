"""The display of the library's values: one line, a table as text, a table as HTML.

A value describes itself as neutral tables (`table`), and is `Tabular`; the renderers (`text`,
`html`) know no value. The invariant: showing a value reads nothing, and never runs Spark.
"""
