"""What went wrong in the field with tools of this kind: a test per public report, named after project and number.

mp is NVIDIA/mig-parted, go NVIDIA/gpu-operator, dp NVIDIA/k8s-device-plugin, dra the DRA driver for NVIDIA GPUs, nfd
node-feature-discovery, kured kubereboot/kured and kopf nolar/kopf.
What has no test here stands in ``docs/critiques.md`` with the reason, or concerns no node.
"""
