"""What the kubelet says about devices: who holds which, and which it offers."""
