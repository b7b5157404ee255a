"""A local web app: a browser's requests to `dbtm.service`, and results as events. One small module per room.

Nothing heavy is imported before it is needed: pages open at once, models load in the background.
"""
