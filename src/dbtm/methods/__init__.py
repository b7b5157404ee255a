"""Methods: each owns its network, its settings, its sampler and its sampler's options."""

from dbtm.core.registry import METHODS

BUILT_IN = {
    "ar": "dbtm.methods.ar",
    "dbtm": "dbtm.methods.dbtm",
    "duo": "dbtm.methods.duo",
    "dfm": "dbtm.methods.flow.dfm",
    "dfm-esd": "dbtm.methods.flow.dfm",
    "flm": "dbtm.methods.flow.flm",
    "fmlm": "dbtm.methods.flow.fmlm",
    "fmlm-plus": "dbtm.methods.flow.fmlm_plus",
    "mdlm": "dbtm.methods.mdlm",
    "s-flm": "dbtm.methods.sflm",
}

register_method = METHODS.add

__all__ = ["BUILT_IN", "register_method"]
