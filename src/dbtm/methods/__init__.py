"""Methods: each defines its network, its settings, its sampler and its sampler's options."""

from dbtm.core.registry import METHODS

BUILT_IN = {
    "ar": "dbtm.methods.ar",
    "candi": "dbtm.methods.candi",
    "cfm": "dbtm.methods.flow.cfm",
    "dbtm": "dbtm.methods.dbtm",
    "dfm": "dbtm.methods.flow.dfm",
    "dfm-esd": "dbtm.methods.flow.dfm",
    "duo": "dbtm.methods.duo",
    "duo-dcd": "dbtm.methods.dcd",
    "duo-di4c": "dbtm.methods.di4c",
    "flm": "dbtm.methods.flow.flm",
    "flm-self": "dbtm.methods.flow.star",
    "fmlm": "dbtm.methods.flow.fmlm",
    "fmlm-plus": "dbtm.methods.flow.fmlm_plus",
    "fmlm-star": "dbtm.methods.flow.star",
    "mdlm": "dbtm.methods.mdlm",
    "mdlm-di4c": "dbtm.methods.di4c",
    "mdlm-sdtt": "dbtm.methods.sdtt",
    "s-flm": "dbtm.methods.sflm",
}

register_method = METHODS.add
"""Decorator: register a method by its name, so that runs can select it and its checkpoints can be loaded."""

__all__ = ["BUILT_IN", "register_method"]
