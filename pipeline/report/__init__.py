"""The report: one HTML file that needs nothing else, made from gold tables.

`gather` reads them, `story` says in ten lines what they say, `charts` draws, `page` puts it together.
"""
