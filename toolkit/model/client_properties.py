"""
A client's properties file, Java's or librdkafka's, as connection settings of the fleet file.

A secret of the file is not taken over: the setting refers to it (`${property:PATH:NAME}`), and the
file is read again when a connection is made. What does not concern the connection is skipped; what
does, and has no meaning here, is refused by its name. `tests/fixtures/java_answers.py` asks Kafka's
own classes what files mean.

Java's grammar is that of `java.util.Properties.load`: Latin-1, escapes, continued lines. Programs
of librdkafka, such as kcat, read `name=value` in UTF-8, and a backslash is a character of the
value.

A JAAS entry (KIP-85) is read as by Java's `StreamTokenizer`. Both quotation marks delimit a value,
in which a backslash escapes as in Java. `//`, `/* */` and a single `/` begin comments; the last
takes a line end that follows at once. A number is no value. Errors never repeat the text: it has a
password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import UsageError
from toolkit.model.cluster import OWN_SETTINGS, SECRET_SETTINGS, SETTINGS, normal_value
from toolkit.model.input_files import read_input

_SECURITY = "org.apache.kafka.common.security"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_PASSWORD = {"username": "sasl.username", "password": "sasl.password"}
_TOKEN = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_TICKET = {"serviceName": "sasl.kerberos.service.name"}
MODULES = {
    f"{_SECURITY}.plain.PlainLoginModule": _PASSWORD,
    f"{_SECURITY}.scram.ScramLoginModule": _PASSWORD,
    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule": _TOKEN,
    _KERBEROS: _TICKET,
}
# Options that ask for the default; the ticket is that of the ticket cache.
JAAS_AS_IT_IS = {
    "tokenauth": {"false"},
    "useKeyTab": {"false"},
    "useTicketCache": {"true"},
    **{name: {"true", "false"} for name in ("debug", "doNotPrompt", "refreshKrb5Config")},
    **{name: {"true", "false"} for name in ("renewTGT", "storeKey", "isInitiator")},
}
# Only these names are repeated: where a quotation mark is missing, a password looks like a name.
NAMED = {*JAAS_AS_IT_IS, "keyTab", "principal", "ticketCache", "useFirstPass", "storePass"}

FLAGS = {"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"}
TOKEN = re.compile(
    r"""
    [\x00-\x20]+
    | /\*.*?(?:\*/|\Z)
    | //[^\n\r]*
    | /[^*/]?[^\n\r]*
    | (?P<number> -?(?=[0-9.])[0-9]*(?:\.[0-9]*)?)
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\-\xa0-\U0010ffff]*)
    | "(?P<double>(?:\\.|[^"\\\n\r])*)(?:"|(?=[\n\r])|\\?\Z)
    | '(?P<single>(?:\\.|[^'\\\n\r])*)(?:'|(?=[\n\r])|\\?\Z)
    | (?P<sign> .)
    """,
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
FORM = (
    "write org.apache.kafka.common.security.plain.PlainLoginModule (or scram.ScramLoginModule) "
    'required username="..." password="...";'
)

Pairs = Iterator[tuple[str, str]]
MOST_BYTES = 2**20
REQUEST_TIMEOUT = "request.timeout.ms"
# Java's name first; files of librdkafka have the same name as here, or the one that follows.
SAME = SETTINGS - OWN_SETTINGS | {"bootstrap.servers"}
OTHER_NAMES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
# Java's; a PEM key store has both in one file.
STORES = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
TEXTS = {  # KIP-651
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
OF_JAVA = {"sasl.jaas.config", *STORES, *TEXTS}
OF_LIBRDKAFKA = {
    *("metadata.broker.list", "sasl.mechanisms", "sasl.username", "sasl.password"),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "https.ca.location"),
    *("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "sasl.oauthbearer.method"),
    *("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"),
    "enable.ssl.certificate.verification",
}
TOKEN_HANDLERS = {
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
}
# What always holds here: certificates and host names are checked.
AS_IT_IS = {
    "config.providers": {""},
    "enable.ssl.certificate.verification": {"true"},
    "sasl.login.callback.handler.class": TOKEN_HANDLERS,
    "sasl.oauthbearer.method": {"oidc"},
    "security.providers": {""},
    "ssl.endpoint.identification.algorithm": {"https"},
    "ssl.truststore.type": {"PEM"},
    "ssl.keystore.type": {"PEM"},
}
ABOUT_THE_CONNECTION = (
    *("sasl.", "security.", "ssl.", "enable.ssl.", "https.", "config.providers"),
    "bootstrap.controllers",
)
# As near as this, a name is a mistake: Java would skip it, and connect in plaintext.
NEARLY = 0.9
REFERENCE = re.compile(r"\$\{[^}]*:[^}]*\}")
TRIMMED = "".join(map(chr, range(0x21)))  # by Java, of every value
UTF_8_MARK = b"\xef\xbb\xbf"
BLANKS = " \t\f"
LINE_END = re.compile(r"\r\n|\r|\n")
# A separator is a blank, "=" or ":" that no backslash takes away.
JAVA_PAIR = re.compile(
    r"(?P<key>(?:\\.|[^\\ \t\f=:])*)[ \t\f]*(?:[=:][ \t\f]*)?(?P<value>.*)", re.DOTALL
)
JAVA_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
JAVA_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
# Settings that tune the admin client, of which only `request.timeout.ms` is used: types and least
# values are those of `AdminClientConfig` in Apache Kafka 4.3.1.
ANY_LONG = -(2**63)
INT, LONG = 2**31 - 1, 2**63 - 1
TUNING_NUMBERS = {  # the least value of each, and the largest
    "connections.max.idle.ms": (ANY_LONG, LONG),
    "default.api.timeout.ms": (0, INT),
    "metadata.max.age.ms": (0, LONG),
    "metadata.recovery.rebootstrap.trigger.ms": (0, LONG),
    "metrics.num.samples": (1, INT),
    "metrics.sample.window.ms": (0, LONG),
    "receive.buffer.bytes": (-1, INT),
    "reconnect.backoff.max.ms": (0, LONG),
    "reconnect.backoff.ms": (0, LONG),
    "request.timeout.ms": (0, INT),
    "retries": (0, INT),
    "retry.backoff.max.ms": (0, LONG),
    "retry.backoff.ms": (0, LONG),
    "send.buffer.bytes": (-1, INT),
    "socket.connection.setup.timeout.max.ms": (ANY_LONG, LONG),
    "socket.connection.setup.timeout.ms": (ANY_LONG, LONG),
    "socket.timeout.ms": (0, INT),  # librdkafka's
}
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
TUNING_CHOICES = {
    # The other one finds the principals of brokers in a way that is not supported.
    "client.dns.lookup": {"use_all_dns_ips"},
    "metrics.recording.level": {"INFO", "DEBUG", "TRACE"},
}
TUNING_CHOICES_IN_ANY_CASE = {
    "enable.metrics.push": {"true", "false"},
    "metadata.recovery.strategy": {"none", "rebootstrap"},
}
PEM_WIDTH = 64
PEM_BLOCK = re.compile(
    r"-+BEGIN (?P<label>[A-Z ]*)-+(?P<body>[A-Za-z0-9+/=\s]*)-+END (?P=label)-+", re.ASCII
)


def login_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of a JAAS entry, whose text is never repeated; raises UsageError."""
    entry = _read(text)
    if entry.module not in MODULES:
        raise _wrong_entry("has a login module that is not supported")
    names = MODULES[entry.module]
    for option, value in entry.options.items():
        if option not in names and value not in JAAS_AS_IT_IS.get(option, ()):
            which = f"option {option} with this value" if option in NAMED else "option"
            raise _wrong_entry(f"has an {which}, which is not supported")
    if names is _PASSWORD and not all(map(entry.options.get, names)):
        raise _wrong_entry("has no username or no password")
    yield from ((name, entry.options[o]) for o, name in names.items() if o in entry.options)


class _JaasEntry(NamedTuple):
    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    text: str | None  # of a word or of what was in quotes
    sign: str = ""


def _read(text: str) -> _JaasEntry:
    """Return the only entry; raises UsageError for what Java refuses, and for nameless options."""
    tokens = _tokens(text)
    entries = [_entry(token, tokens) for token in tokens]
    if len(entries) != 1:
        raise _wrong_entry(f"has {len(entries) or 'no'} login modules; it must have one")
    return entries[0]


def _wrong_entry(what: str) -> UsageError:
    return UsageError(f"sasl.jaas.config {what}", hint=FORM)


def _entry(first: _Token, tokens: Iterator[_Token]) -> _JaasEntry:
    flag = next(tokens, _Token(None))
    if first.text is None or (flag.text or "").upper() not in FLAGS:
        raise _wrong_entry("has no login module that is followed by 'required'")
    options: dict[str, str] = {}
    for name in tokens:
        if name.sign == ";":
            return _JaasEntry(first.text, options)
        equals, value = next(tokens, _Token(None)), next(tokens, _Token(None))
        if name.text is None or equals.sign != "=" or value.text is None:
            raise _wrong_entry("has something other than name=\"value\" after 'required'")
        options[name.text] = value.text
    raise _wrong_entry("does not end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    for match in TOKEN.finditer(text):
        match match.lastgroup:
            case "word":
                yield _Token(match["word"])
            case "double" | "single":
                yield _Token(ESCAPE.sub(_meant, match[match.lastgroup]))
            case "number" | "sign":
                yield _Token(None, match[match.lastgroup])


def _meant(match: re.Match[str]) -> str:
    found = match[1]
    return chr(int(found, 8)) if found[0] in "01234567" else CONTROL.get(found, found)


def read_client_properties(path: Path) -> dict[str, str]:
    """
    Return the settings, in the names of the fleet file, with references in place of secrets.

    The file may also have `bootstrap.servers` and `request.timeout.ms`. Paths in the file are
    relative to it. Raises UsageError for what cannot be used.
    """
    if "}" in str(path):
        raise _wrong(path, UsageError("its path has a }", hint="rename it"))
    settings = _settings(path)
    for name, value in settings.items():
        if name in SECRET_SETTINGS:
            settings[name] = f"${{property:{path.absolute()}:{name}}}"
        elif name.endswith(".location"):
            settings[name] = str(path.absolute().parent / value)
    return settings


def secret_in(path: Path, name: str) -> str:
    """Return a secret of a file; raises UsageError, and KeyError where it is not in it."""
    return _settings(path)[name]


def _settings(path: Path) -> dict[str, str]:
    try:
        return settings_in(read_input(path, most_bytes=MOST_BYTES))
    except UsageError as exc:
        raise _wrong(path, exc) from exc
    except OSError as exc:
        unread = UsageError(f"it cannot be read: {exc.strerror}", hint="correct the path")
        raise _wrong(path, unread) from exc


def settings_in(content: bytes) -> dict[str, str]:
    """Return the settings of a file with this content, secrets as they are; raises UsageError."""
    properties = _properties(content)
    settings: dict[str, str] = {}
    for key, value in properties.items():
        for name, meant in _setting(key, value, properties):
            if settings.setdefault(name, meant) != meant:
                raise UsageError(f"{key} sets {name} to another value", hint="keep one of the two")
    for name, value in settings.items():
        _check_value(name, value)
    return settings


def _properties(content: bytes) -> dict[str, str]:
    """Return the pairs in the grammar of the client whose names the file has."""
    latin, utf = _decoded(content)
    if any(line.partition("=")[0].strip() in OF_LIBRDKAFKA for line in re.split(r"[\r\n]", utf)):
        found, foreign, owner = _librdkafka_pairs(utf), OF_JAVA, "Java"
    else:
        found, foreign, owner = _java_pairs(latin), OF_LIBRDKAFKA, "librdkafka"
    if mixed := sorted(foreign & found.keys()):
        raise UsageError(
            f"{mixed[0]} is a setting of {owner}, but the file is not in its form",
            hint="use the names of one client, Java or librdkafka, whose rules for backslashes "
            "and letters differ",
        )
    return {key: value.strip(TRIMMED) for key, value in found.items()}


def _setting(key: str, value: str, properties: Mapping[str, str]) -> Pairs:
    name = OTHER_NAMES.get(key, key)
    if name in SAME:
        yield from [(name, normal_value(name, value))] if value or name != "client.id" else ()
    elif key == "sasl.jaas.config":
        yield from login_settings(value)
    elif key in STORES or key in TEXTS:
        yield from _store(key, value, properties)
    elif AS_IT_IS.get(key, set()) & {value, value.lower()}:
        return
    elif key.startswith(ABOUT_THE_CONNECTION):
        # Its value may be a secret, so that it is not repeated.
        hint = "leave it out, or set what it means in the fleet file"
        if key.startswith("config.providers"):
            hint = "write the values, or references such as ${env:NAME} in the fleet file"
        raise UsageError(f"{key} cannot be used here with this value", hint=hint)
    else:
        _check_other(key, value)
        # Java's 0 is over before an answer can come.
        yield from [(key, str(int(value)))] if key == REQUEST_TIMEOUT and int(value) else ()


def _store(key: str, value: str, properties: Mapping[str, str]) -> Pairs:
    kind = ".".join(key.split(".")[:2])
    if properties.get(f"{kind}.type", "JKS") != "PEM":
        hint = f"convert the store to PEM and set {kind}.type=PEM"
        raise UsageError(f"{key} is a Java keystore, which is not supported", hint=hint)
    if key in STORES:
        yield from ((name, value) for name in STORES[key])
        return
    label = "PRIVATE KEY" if key == "ssl.keystore.key" else "CERTIFICATE"
    if not (blocks := _pem_blocks(value, label)):
        raise UsageError(f"{key} has no {label.lower()} in PEM format", hint="correct it")
    yield TEXTS[key], blocks


def _check_other(key: str, value: str) -> None:
    """Refuse a value that no client accepts, and a name that is nearly a known one."""
    if problem := _wrong_tuning(key, value):
        raise UsageError(f"{key} {problem}", hint="correct it, or leave it out")
    known = sorted({*SAME, *OTHER_NAMES, *OF_JAVA, *AS_IT_IS})
    if near := get_close_matches(key.strip().lower(), known, n=1, cutoff=NEARLY):
        raise UsageError(f"{key!a} is not known", hint=f"did you mean {near[0]}?")


def _check_value(name: str, value: str) -> None:
    """Refuse a text that would be sent literally, although it cannot be meant so."""
    try:
        value.encode()
    except UnicodeEncodeError:
        hint = "save the file as UTF-8; in Java's form, write other letters as \\uXXXX"
        raise UsageError(f"{name} has letters that cannot be read", hint=hint) from None
    if REFERENCE.search(value):
        hint = "write the value; or write the reference in the fleet file, for a secret"
        raise UsageError(f"{name} has a reference, which is not looked up here", hint=hint)
    if name.endswith(".location") and not value:
        raise UsageError(f"{name} is empty", hint="name a file, or leave it out")


def _wrong(path: Path, exc: UsageError) -> UsageError:
    return UsageError(f"client properties {path}: {exc.problem}", hint=exc.hint)


def _decoded(content: bytes) -> tuple[str, str]:
    """
    Return a file's text as Java reads it, and as librdkafka's programs do; without a mark.

    In the latter, bytes that are no UTF-8 stay as surrogates. Raises UsageError for UTF-16, which
    either would read as unknown names.
    """
    if b"\0" in content or content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError("it is UTF-16 or no text", hint="save it as UTF-8")
    content = content.removeprefix(UTF_8_MARK)
    return content.decode("latin-1"), content.decode("utf-8", errors="surrogateescape")


def _java_pairs(text: str) -> dict[str, str]:
    """Return the pairs of Java's grammar, of which a later one wins; raises UsageError."""
    found = {}
    for line in _logical_lines(text):
        match = JAVA_PAIR.fullmatch(line)
        if not match or not match["key"]:
            raise UsageError("a line has no key", hint="write key=value")
        found[_unescaped(match["key"])] = _unescaped(match["value"])
    return found


def _librdkafka_pairs(text: str) -> dict[str, str]:
    """Return the pairs of `name=value` lines, of which a later one wins; raises UsageError."""
    found = {}
    for line in LINE_END.split(text):
        name, equals, value = line.strip().partition("=")
        if not line.strip() or name.startswith("#"):
            continue
        if not equals or not name.strip():
            raise UsageError(
                "a line is not name=value", hint="write name=value, or # for a comment"
            )
        found[name.strip()] = value.strip()
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with those joined that end in a backslash, without blank ones and comments."""
    begun = ""
    for line in LINE_END.split(text):
        part = line.lstrip(BLANKS)
        if not begun and (not part or part[0] in "#!"):
            continue
        if (len(part) - len(part.rstrip("\\"))) % 2:
            begun += part[:-1]
            continue
        yield begun + part
        begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        found = match[1]
        if found == "u":
            raise UsageError("a \\u is not followed by four hexadecimal digits", hint="write \\\\u")
        return chr(int(found[1:], 16)) if len(found) > 1 else JAVA_CONTROL.get(found, found)

    # Two escapes may be the halves of one character; half of one stays.
    units = JAVA_ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass")
    return units.decode("utf-16", "surrogatepass")


def _wrong_tuning(name: str, value: str) -> str:
    """Return what is wrong with the value of a setting; "" for nothing, and for other settings."""
    if name in TUNING_NUMBERS:
        return _wrong_number(value, *TUNING_NUMBERS[name])
    if name in TUNING_CHOICES_IN_ANY_CASE:
        return _wrong_word(value.lower(), TUNING_CHOICES_IN_ANY_CASE[name])
    return _wrong_word(value, TUNING_CHOICES[name]) if name in TUNING_CHOICES else ""


def _wrong_number(value: str, least: int, largest: int) -> str:
    if not WHOLE_NUMBER.fullmatch(value):
        return "is not a number"
    return "" if least <= int(value) <= largest else "is out of range"


def _wrong_word(value: str, choices: set[str]) -> str:
    return "" if value in choices else f"is not one of: {', '.join(sorted(choices))}"


def _pem_blocks(text: str, label: str) -> str:
    """
    Return the blocks whose label ends in this one, with the line ends that OpenSSL wants.

    Java also reads a block on one line, with blanks in place of line ends. "" where there is none.
    """
    found = []
    for match in PEM_BLOCK.finditer(text):
        if match["label"].endswith(label):
            body = "".join(match["body"].split())
            lines = [body[at : at + PEM_WIDTH] for at in range(0, len(body), PEM_WIDTH)]
            name = match["label"]
            found += [f"-----BEGIN {name}-----", *lines, f"-----END {name}-----"]
    return "".join(f"{line}\n" for line in found)
