"""What both clients are given for a properties file is what Kafka's own classes read in it."""

import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from client_files import FILES, OTHERWISE
from java_answers import ANSWERS, SERVERS, SOMEWHERE

from toolkit.errors import UsageError
from toolkit.kafka_io.client.client_settings import admin_settings
from toolkit.model import Cluster
from toolkit.model.client_properties import read_client_properties, settings_in

JAVA = json.loads(ANSWERS.read_text("ascii"))


def answers_of_java(answer: dict[str, Any]) -> dict[str, Any]:
    protocol = answer["security.protocol"].upper()
    used = {"protocol": protocol, "client": answer["client.id"] or "offsetbook"}
    used["servers"] = [of_server(*server.split(" ")) for server in answer[SERVERS]]
    if protocol.startswith("SASL"):
        used["mechanism"] = answer["sasl.mechanism"]
        used["login"] = [answer["options"].get(name) for name in ("username", "password")]
    return used


def of_server(host: str, port: str) -> str:
    if ":" in host:
        host = f"[{ip_address(host.strip('[]'))}]"
    return f"{host}:{port}"


def reading(path: Path, text: str) -> dict[str, Any]:
    path.write_bytes(text.encode("latin-1"))
    settings = read_client_properties(path)
    settings.pop("request.timeout.ms", None)
    admin = admin_settings(Cluster("row", settings.pop(SERVERS, SOMEWHERE), settings))
    found = {
        "protocol": admin["security_protocol"],
        "client": admin["client_id"],
        "servers": [of_server(*one.rsplit(":", 1)) for one in admin["bootstrap_servers"]],
    }
    if "sasl_mechanism" in admin:
        user = admin["sasl_plain_username"]
        if admin["sasl_mechanism"].startswith("SCRAM"):  # it is escaped for the client
            user = user.replace("=2C", ",").replace("=3D", "=")
        found["mechanism"] = admin["sasl_mechanism"]
        found["login"] = [user, admin["sasl_plain_password"]]
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_file_means_what_it_means_in_java(name: str, tmp_path: Path) -> None:
    """The client gets the values that Java reads; files that Java rejects are rejected."""
    answer, other = JAVA["files"][name], OTHERWISE.get(name)
    path = tmp_path / "client.properties"
    if other and not other.refused:
        expected = {**answers_of_java(answer), **other.used}
    elif other or "error" in answer:
        with pytest.raises(UsageError) as caught:
            reading(path, FILES[name])
        assert (other.refused if other else "") in caught.value.problem
        assert caught.value.hint
        return
    else:
        expected = answers_of_java(answer)

    assert expected == reading(path, FILES[name])


def test_the_answers_are_of_these_files() -> None:
    """Every file was asked for, as it is now; and what is otherwise is about one of them."""
    assert FILES == {name: answer["file"] for name, answer in JAVA["files"].items()}
    assert OTHERWISE.keys() <= FILES.keys()
    assert all(other.why for other in OTHERWISE.values())


@pytest.mark.parametrize("name", JAVA["types"])
def test_a_value_is_of_the_type_that_java_wants(name: str) -> None:
    """A number that Java refuses is refused by the setting's name; what it takes is none of it."""
    for value in JAVA["types"][name]["refused"]:
        with pytest.raises(UsageError, match=name):
            settings_in(f"{name}={value}\n".encode())
    for value in JAVA["types"][name]["taken"]:
        if not name.startswith("sasl."):  # those are refused, whatever their value
            assert settings_in(f"{name}={value}\n".encode()).keys() <= {"request.timeout.ms"}
