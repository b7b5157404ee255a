"""A local web app: requests of a browser to `dbtm.service`, and its results as events. One small module per room.

Nothing heavy is imported before it is needed: pages are there at once, models load in the background.
"""
