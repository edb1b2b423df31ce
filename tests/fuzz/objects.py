"""Objects that say everything they can say, to be damaged."""

from __future__ import annotations

from mig_manager.api.layout import layout_hash, layout_to_dict
from tests.agent.layouts import every
from tests.fuzz.damage import Json

_LAYOUT = every("1g*2", "3g")
_TERMS: Json = {
    "devicePluginStrategy": "Mixed",
    "layout": layout_to_dict(_LAYOUT),
    "hash": layout_hash(_LAYOUT),
    "maxImpact": "EvictPods",
    "drain": {"timeoutSeconds": 900, "protectedPods": {"matchLabels": {"a": "b"}}},
    "profile": "p",
    "config": "pool",
}
_TIME = "2026-01-02T03:04:05Z"

MIG_NODE: Json = {
    "metadata": {"name": "n1", "uid": "u", "generation": 1, "resourceVersion": "7"},
    "spec": {
        "schema": 1,
        "nodeUID": "node",
        "desired": {**_TERMS, "generation": 1},
        "grant": {**_TERMS, "id": 1, "by": "controller-1", "slot": True},
    },
    "status": {
        "observedGeneration": 1,
        "grant": {"id": 1, "state": "Released", "result": "Applied", "attempts": 1, "since": _TIME},
        "plan": {"hash": "a", "impact": "None", "keep": 1, "create": 0, "destroy": 0},
        "gpus": [{"index": 0, "uuid": "GPU-1", "model": "A100", "slices": ["1g.10gb@0"]}],
        "summary": {"gpus": "1", "slices": "1"},
        "resources": {"nvidia.com/mig-1g.10gb": 1},
        "step": "release",
        "bootID": "b",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": _TIME}
        ],
    },
}

CONFIG: Json = {
    "apiVersion": "migmanager.io/v1alpha1",
    "kind": "MIGConfig",
    "metadata": {"name": "pool", "uid": "u", "generation": 1, "resourceVersion": "7"},
    "spec": {
        "nodeSelector": {"matchLabels": {"pool": "a"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]},
        "profile": "two",
        "nodeProfileLabel": "migmanager.io/profile",
        "profiles": {
            "two": {
                "gpus": [
                    {
                        "match": {"models": ["A100-SXM4-80GB"], "indices": [0, 1], "deviceIDs": ["0x20B2"]},
                        "count": 2,
                        "slices": [{"slice": "3g.40gb", "start": 4, "compute": ["1c", "1c"]}],
                    },
                    {"slices": [{"slice": "1g", "count": "max"}], "mig": "Enabled"},
                ]
            }
        },
        "devicePluginStrategy": "Auto",
        "disruption": {"maxUnavailable": "10%", "maxImpact": "EvictPods", "drain": {"timeoutSeconds": 900}},
        "rollback": "OnFailure",
        "paused": False,
    },
    "status": {"observedGeneration": 1, "nodes": {"total": 1}, "conditions": []},
}

MIG_PARTED: Json = {
    "version": "v1",
    "mig-configs": {
        "all-1g": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}],
        "mixed": [
            {
                "device-filter": ["0x20B210DE"],
                "devices": [0, 1],
                "mig-enabled": True,
                "mig-devices": {"3g.40gb": 1, "1g.10gb": 2},
            },
            {"devices": [2], "mig-enabled": False, "mig-devices": {}},
        ],
    },
}
