"""Times, durations and names are read as they are written, or refused in words."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model.groups import names_meant
from toolkit.model.names import MISSING, TOOL_MISSING, ExactName, named, shown_name, typed_name
from toolkit.model.times import format_duration, parse_duration, parse_time, short_duration

EIGHT = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T08:00:00.000",
        "2026-03-01T08:00:00",
        "2026-03-01T08:00",
        " 2026-03-01 08:00 ",
        "2026-03-01t08:00z",
        "2026-03-01 08:00Z",
        "2026-03-01 08:00 UTC",
        "2026-03-01T10:00+02",
        "2026-03-01T10:00:00.000+0200",
        "2026-03-01 10:00:00 +02:00",
        "2026-03-01T02:30:00.000000-05:30",
    ],
)
def test_one_instant_in_many_spellings(text: str) -> None:
    """With a T or a blank, seconds or none, and any spelling of a zone, it is the same instant."""
    assert EIGHT == parse_time(text).at


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2026-03-01 10:00+02:00", "2026-03-01 10:00+02:00 = 2026-03-01 08:00:00 UTC"),
        ("2026-03-01", "2026-03-01 (no zone given, so UTC) = 2026-03-01 00:00:00 UTC"),
        ("2026-03-01T10:00:00.5Z", "2026-03-01T10:00:00.5Z = 2026-03-01 10:00:00.500000 UTC"),
    ],
)
def test_an_instant_is_shown_as_written_and_in_utc(text: str, told: str) -> None:
    """What was written, and what it was taken for: a day for its midnight, no zone for UTC."""
    assert told == str(parse_time(text))


NO_TIMES = {
    "": "'' is not a time. Try: write 2026-03-01 10:00+02:00",
    "yesterday": "'yesterday' is not a time",
    "1700000000000": "is not a time",
    "2026-11-31": "'2026-11-31' is not a time: day ",
    "2026-02-29T00:00": "is not a time: day ",
    "2026-13-01": "month must be in 1..12",
    "2026-03-01T24:00": "hour must be in 0..23",
    "2026-03-01T10:60": "minute must be in 0..59",
    "2026-3-1": "is not a time",
    "2026-03-01T10:00:00.0000001": "is not a time",
    "2026-03-01T10:00+19": "invalid UTC offset +19",
    "2026-03-01T10:00+02:75": "invalid UTC offset +02:75",
    "0001-01-01T00:00+02:00": "is not a time",
    "2026-03-01T10:00 Europe/Paris": "use an offset such as +01:00",
    "2026-03-01T10:00[Europe/Paris]": "time zone names are not supported",
    "2026-03-01 10:00 CET": "time zone names are not supported",
    "٢٠٢٦-03-01": "is not a time",
}
NO_DURATIONS = {
    "": "'' is not a duration. Try: write 30s, 90m, 12h, 30d or PT12H30M",
    "P": "'P' is not a duration",
    "PT": "'PT' is not a duration",
    "P1DT": "'P1DT' is not a duration",
    "5": "'5' is not a duration",
    "1h2d": "'1h2d' is not a duration",
    "p1d": "'p1d' is not a duration",
    "PT1.5H": "'PT1.5H' is not a duration",
    "٣d": "is not a duration",
    "-PT1H": "the duration '-PT1H' has a sign. Try: use a positive duration, such as P1D",
    "PT-1H": "has a sign",
    "-1d": "has a sign",
    "PT0S": "the duration 'PT0S' is zero",
    "0m": "is zero",
    "P1M": "duration 'P1M' uses months or years, which have no fixed length. Try: use days",
    "P1Y": "uses months or years",
    "P1Y2M3D": "uses months or years",
    "1M": "uses months or years",
    "2y": "uses months or years",
    "P36501D": "is longer than 36,500 days",
    "P99999999W99999999DT99999999H99999999M99999999S": "is longer than 36,500 days",
    "999999999s": "is not a duration",
}


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        *((parse_time, *refusal) for refusal in NO_TIMES.items()),
        *((parse_duration, *refusal) for refusal in NO_DURATIONS.items()),
    ],
)
def test_invalid_times_and_durations_are_refused(
    parse: Callable[[str], object], text: str, says: str
) -> None:
    """The message quotes the input and says what to write (R20, R21, R22)."""
    with pytest.raises(UsageError) as refused:
        parse(text)

    assert says in str(refused.value)


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1)),  # noqa: DTZ001 - the zone is drawn
    st.integers(-18 * 60, 18 * 60),
)
def test_any_instant_is_read_as_python_writes_it(naive: datetime, minutes: int) -> None:
    """What isoformat writes, in any zone, is read back as the same instant."""
    at = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))

    assert at == parse_time(at.isoformat()).at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", timedelta(days=1)),
        ("PT12H30M", timedelta(hours=12, minutes=30)),
        ("P2W", timedelta(weeks=2)),
        ("P1DT2H3M4S", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("PT1M", timedelta(minutes=1)),
        ("P3650D", timedelta(days=3650)),
        ("90m", timedelta(minutes=90)),
        ("1d", timedelta(days=1)),
        ("2h30m", timedelta(hours=2, minutes=30)),
        (" 30d ", timedelta(days=30)),
        ("45s", timedelta(seconds=45)),
        ("1w", timedelta(weeks=1)),
    ],
)
def test_durations_long_and_short(text: str, expected: timedelta) -> None:
    """ISO 8601 as the real tool reads it, and the short form that people write."""
    assert expected == parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (-0.002, "-2 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (1.25, "1.2 s"),
        (9.96, "10 s"),
        (45, "45 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (5400, "1 h 30 min"),
        (3600 + 59, "1 h"),
        (36 * 3600, "1 d 12 h"),
        (7 * 86_400 + 60, "7 d"),
        (-5400, "-1 h 30 min"),
        (2**53, "104249991374 d 7 h"),
    ],
)
def test_a_duration_is_written_in_its_two_largest_units(seconds: float, text: str) -> None:
    """The same duration is the same text everywhere, however short, long or negative."""
    assert text == format_duration(seconds)


@given(st.integers(1, 36_500 * 86_400))
def test_a_short_duration_is_read_back(seconds: int) -> None:
    """A plan and a command can carry it."""
    length = timedelta(seconds=seconds)

    assert length == parse_duration(short_duration(length))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("payments", "payments"),
        ("it's", "it's"),
        ('a"b', 'a"b'),
        ("", '""'),
        (" ", '" "'),
        ("a ", '"a "'),
        ("\N{NO-BREAK SPACE}", '"\N{NO-BREAK SPACE}"'),
        (MISSING, f'"{MISSING}"'),
        (TOOL_MISSING, f'"{TOOL_MISSING}"'),
        ('""', '"\\"\\""'),
        ("消费者", "消费者"),
    ],
)
def test_shown(name: str, shown: str) -> None:
    """In quotes is what looks like no name, or like a name in quotes."""
    assert shown == shown_name(name)
    assert name == named(shown)


@given(st.text(st.sampled_from('a "\\\n\N{EN DASH}-é')))
def test_a_shown_name_can_be_typed(name: str) -> None:
    """There is always something to see, and no two names look alike."""
    assert name == named(shown_name(name))
    assert shown_name(name).strip() not in {"", MISSING, TOOL_MISSING}


@pytest.mark.parametrize("name", ["pay*", "[a]", "a?", "payments", "", " a*", MISSING])
def test_an_exact_name_is_no_pattern(name: str) -> None:
    """It means this group alone, or none, as an object of Python and as a text that is typed."""
    others = {"payments", "a", "ab", "pay[*]", "[[]a]", "a[?]", " a[*]", "None"} - {name}
    exact = ExactName(name)
    for written in (exact, typed_name(exact)):
        assert [name] == names_meant(written, {*others, name})
        assert [] == names_meant(written, others)
