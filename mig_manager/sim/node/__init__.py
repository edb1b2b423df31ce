"""Simulated GPU nodes: a small kubelet, NVIDIA's device plugin, and pods that hold slices of a simulated machine.

``fleet`` holds many nodes, ``node`` is one: a Node object, a ``kubelet``, a machine. The kubelet consists of
``registration`` (device plugins come and go), ``device_manager`` (what they offer, who holds what), ``admission``,
``pod_worker`` and ``processes`` (pods on the cards), ``pod_status`` (what the API is told) and ``podresources_server``.
``clients`` says what runs in which container: ``plugin`` and ``exporter``; ``daemon_sets`` brings their pods where no
controller manager does.
"""
