"""The report: a self-contained HTML file from the gold tables.

`gather` reads the tables, `story` summarises them in ten lines, `charts` draws, and `page` assembles the file.
"""
