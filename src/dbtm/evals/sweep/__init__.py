"""A text model over all its knobs: what is measured, the folder that remembers it, and the tables it ends in."""
