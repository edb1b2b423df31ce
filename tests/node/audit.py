"""Which requests the product makes, as the API server's audit log has them: none refused, and which rights lie idle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tests.deploy.manifests import rules_of
from tests.node.workloads import PRODUCT, VARIANT

ACCOUNTS = ("agent", "controller")
REFUSED = (401, 403, 422)
"""Unknown, not allowed by a role, not allowed by a policy."""

Right = tuple[str, str, str, str]
"""Account, API group, resource with its subresource, verb."""


class Audit:
    """The audit log in a directory, from the API server's start on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._forgiven = 0

    @property
    def _log(self) -> Path:
        return self.directory / "audit.log"

    def flags(self) -> list[str]:
        """What the API server must be told."""
        users = [_user(account) for account in ACCOUNTS]
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": users}, {"level": "None"}],
        }
        file = self.directory / "audit-policy.json"
        file.write_text(json.dumps(policy))
        return [f"--audit-policy-file={file}", f"--audit-log-path={self._log}"]

    def used(self) -> Counter[Right]:
        """How often each right was used."""
        return Counter(right for right, code, _ in self._requests() if code not in REFUSED)

    def refused(self) -> list[str]:
        """The requests that were refused and not forgiven, in words."""
        refused = [f"{code}: {' '.join(right)} {uri}" for right, code, uri in self._requests() if code in REFUSED]
        return refused[self._forgiven :]

    def forgive(self) -> None:
        """A test made the refused requests of late, as if it were the product."""
        self._forgiven += len(self.refused())

    def unused(self) -> list[Right]:
        """The rights that were granted, and that no request used: what nobody needs should not be granted."""
        return sorted(granted() - self.used().keys())

    def _requests(self) -> list[tuple[Right, int, str]]:
        found = []
        for line in self._log.read_text().splitlines():
            event = json.loads(line)
            about = event.get("objectRef")
            if about is None:
                continue
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            account = event["user"]["username"].rpartition(":")[2]
            right = (account, about.get("apiGroup", ""), resource, event["verb"])
            found.append((right, event.get("responseStatus", {}).get("code", 0), event["requestURI"]))
        return found


def granted() -> set[Right]:
    """Every right that the manifests grant."""
    return {
        (account, group, resource, verb)
        for account in ACCOUNTS
        for rule in rules_of(VARIANT, account)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _user(account: str) -> str:
    return f"system:serviceaccount:{PRODUCT}:{account}"
