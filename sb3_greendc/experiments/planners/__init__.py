"""The measurements behind ``docs/planners.md``: one module a table, one for the figure."""
