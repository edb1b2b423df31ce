"""Tests on real nodes: containerd, runc and the kubelet itself, in namespaces of their own.

``python -m tests.node`` (``make test-node``) makes the namespaces and runs pytest in them, see ``enter``. What is
started there ends with them, whatever ends them, and nothing of the machine is changed.
"""
