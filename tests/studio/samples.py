"""Documents of the studio's tests."""

HOSTILE = "<script>alert(1)</script>"
REFEREE = {
    "task": "markov",
    "metric": {"name": "tv", "title": "total variation", "lower_is_better": True, "share": False},
    "intervals": "95 %",
    "settings": {"budget": {"flops": 8e11, "minutes": None}, "n": 3000, "seeds": [0], "nfe": [1, 4]},
    "hardware": ["a CPU"],
    "commit": ["abc"],
    "best": [],
    "entries": [
        {
            "label": label, "method": label, "about": HOSTILE, "teacher": None, "status": "done", "reasons": [],
            "training": {"flops": 8e11, "seconds": 3.0, "steps": 10, "parameters": 1000, "peak_memory": None},
            "budgets": {
                name: {"value": value / int(name), "low": value / 2 / int(name), "high": value, "n": 3000,
                       "seeds": 3, "used": float(name), "flops_per_sample": 1e6, "seconds_per_sample": 0.01}
                for name in ("1", "4")
            },
            "runs": [], "settings": {},
        }
        for label, value in (("dbtm", 0.1), ("mdlm", 0.3))
    ],
}  # fmt: skip
