"""The roles for which docs/acls.md lists the ACLs, as users of a secured sandbox cluster."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs name only the first
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

OPERATOR = "operator"
ITERATIONS = 4096
TIMEOUT_S = 20


class RoleRule(NamedTuple):
    """Operations that a role may perform on a resource; `*` at the end of a name is any rest."""

    resource: str
    name: str
    operations: tuple[str, ...]


OFFSETS = RoleRule("TOPIC", "__consumer_offsets", ("READ",))
CLUSTER = RoleRule("CLUSTER", "kafka-cluster", ("DESCRIBE", "DESCRIBE_CONFIGS"))
# READ and DELETE imply DESCRIBE, and ALTER_CONFIGS implies DESCRIBE_CONFIGS.
ROLES = {
    "viewer": (
        CLUSTER,
        RoleRule("GROUP", "*", ("DESCRIBE", "DESCRIBE_CONFIGS")),
        RoleRule("TOPIC", "*", ("DESCRIBE", "DESCRIBE_CONFIGS")),
        OFFSETS,
    ),
    OPERATOR: (
        CLUSTER,
        RoleRule("GROUP", "*", ("READ", "DELETE", "ALTER_CONFIGS")),
        RoleRule("TOPIC", "*", ("READ", "DESCRIBE_CONFIGS")),
        RoleRule("TRANSACTIONAL_ID", "offsetbook-move-*", ("WRITE",)),
    ),
    "pipeline": (
        CLUSTER,
        RoleRule("GROUP", "*", ("DELETE", "DESCRIBE_CONFIGS")),
        RoleRule("TOPIC", "*", ("READ", "DESCRIBE_CONFIGS")),
    ),
}


def create_roles(address: str, passwords: Path) -> None:
    """Create a user for each role, over a listener where that is allowed; again does no harm."""
    admin = AdminClient({"bootstrap.servers": address})
    create_users(admin, {role: password_of(role, passwords) for role in ROLES})
    create_acls(admin, ROLES)


def create_users(admin: AdminClient, passwords: Mapping[str, str]) -> None:
    """Create users, by their names, for a listener with SCRAM."""
    mechanism = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    users: list[UserScramCredentialAlteration] = [
        UserScramCredentialUpsertion(user, mechanism, password.encode())
        for user, password in passwords.items()
    ]
    for changed in admin.alter_user_scram_credentials(users).values():
        changed.result(TIMEOUT_S)


def create_acls(admin: AdminClient, rules_of: Mapping[str, Sequence[RoleRule]]) -> None:
    """Create the ACLs of users, by their names."""
    for created in admin.create_acls(list(_acls(rules_of))).values():
        created.result(TIMEOUT_S)


def password_of(role: str, passwords: Path) -> str:
    """Return the password of a role, from its file; the first time, make one."""
    path = passwords / role
    if not path.exists():
        passwords.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(18), "ascii")
    return path.read_text("ascii")


def _acls(rules_of: Mapping[str, Sequence[RoleRule]]) -> Iterator[AclBinding]:
    for user, rules in rules_of.items():
        for rule in rules:
            is_prefix = rule.name.endswith("*") and rule.name != "*"
            pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
            name = rule.name.removesuffix("*") if is_prefix else rule.name
            for operation in rule.operations:
                yield AclBinding(
                    ResourceType["BROKER" if rule.resource == "CLUSTER" else rule.resource],
                    name,
                    pattern,
                    f"User:{user}",
                    "*",
                    AclOperation[operation],
                    AclPermissionType.ALLOW,
                )
