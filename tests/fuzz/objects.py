"""Objects that say everything they can say, to be damaged."""

from __future__ import annotations

from tests.fuzz.damage import Json

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
