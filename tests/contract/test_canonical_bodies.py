from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TypeAlias

import pytest
import rfc8785

from tests.support.deliveries import Delivery, envelope, raw_envelope
from tests.support.gatehouse import Gatehouse

INVALID: Final = (400, "event.invalid")

# Values as they stand in `data`, each by a name of what it shows.
CANONICAL: Final[dict[str, bytes]] = {
    "the example of RFC 8785, section 3.2.4": (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    ),
    "the keys of RFC 8785, section 3.2.3": (
        '{"\\r":"Carriage Return","1":"One","\u0080":"Control\u007f","ö":"Latin Small Letter O With Diaeresis",'
        '"€":"Euro Sign","😀":"Smiley","\ufb33":"Hebrew Letter Dalet With Dagesh"}'
    ).encode(),
    "a text in two ways of composing": '["\u00c5","A\u030a","\u212b"]'.encode(),
    "characters that JavaScript once escaped": '"\u2028\u2029\u007f</script>"'.encode(),
    "the escapes that RFC 8785 has": b'"\\b\\t\\n\\f\\r\\"\\\\\\u0000\\u001f"',
    "empty things": b'["",{},[],null,false]',
    "62 levels inside an envelope": b"[" * 62 + b"]" * 62,
    **{
        f"the number {token}": token.encode()
        for token in (
            "0",
            "-1",
            "9007199254740991",
            "9007199254740992",
            "9007199254740994",
            "-9007199254740994",
            "100000000000000000000",
            "1e+21",
            "1e+23",
            "9.999999999999997e+22",
            "1.0000000000000001e+23",
            "1.7976931348623157e+308",
            "-5e-324",
            "0.000001",
            "-0.0000033333333333333333",
            "9.999999999999997e-7",
            "1424953923781206.2",
            "333333333.33333325",
        )
    },
}

NOT_CANONICAL: Final[dict[str, bytes]] = {
    "the input of the example of RFC 8785, section 3.2.2": (
        b'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        b'"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}'
    ),
    "keys in the order of code points": '{"\ufb33":1,"😀":2}'.encode(),
    "keys in another order": b'{"b":1,"a":2}',
    "a repeated member": b'{"a":1,"a":1}',
    "a repeated member, spelled otherwise": b'{"a":1,"\\u0061":2}',
    "a repeated member, deep inside": b'[[{"a":[{"b":{"c":1,"c":2}}]}]]',
    "white space between values": b"[1, 2]",
    "a letter that is escaped": b'"\\u0041"',
    "a solidus that is escaped": b'"\\/"',
    "hex digits in upper case": b'"\\u001F"',
    "a long escape where there is a short one": b'"\\u000a"',
    "an emoji as escapes": b'"\\ud83d\\ude00"',
    "a control character in a text": b'"\x1f"',
    "half a surrogate pair": b'"\\ud800"',
    "a surrogate pair the wrong way round": b'"\\ude00\\ud83d"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a byte that UTF-8 never has": b'"\xff"',
    "an overlong solidus": b'"\xc0\xaf"',
    "a code point beyond the last": b'"\xf4\x90\x80\x80"',
    "a character that is cut off": b'"\xe2\x82"',
    "a trailing comma": b"[1,]",
    "a comment": b"1/**/",
    "single quotes": b"'a'",
    "63 levels inside an envelope": b"[" * 63 + b"]" * 63,
    "10,000 levels of arrays": b"[" * 10_000 + b"]" * 10_000,
    "10,000 levels of objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "500,000 levels that never end": b"[" * 500_000,
    "5,000 digits": b"9" * 5_000,
    "5,000 digits after the point": b"0." + b"1" * 5_000,
    "an exponent of 5,000 digits": b"1e+" + b"9" * 5_000,
    **{
        f"the number {token}": token.encode()
        for token in (
            "1.0",
            "1e2",
            "1e+2",
            "-0",
            "-0.0",
            "0.10",
            "1E+21",
            "1e21",
            "1000000000000000000000",
            "9007199254740993",
            "-9007199254740993",
            "295147905179352830000",
            "333333333.33333329",
            "0.0000001",
            "1e-6",
            "1e400",
            "1e-400",
            "01",
            "+1",
            ".5",
            "1.",
            "0x10",
            "NaN",
            "Infinity",
            "-Infinity",
            "nan",
            "None",
            "True",
        )
    },
}

Change: TypeAlias = Callable[[bytes], bytes]
# What is done to the whole body of an event that is in order.
CHANGES: Final[dict[str, Change]] = {
    "a byte order mark": lambda body: b"\xef\xbb\xbf" + body,
    "UTF-16 with a byte order mark": lambda body: body.decode().encode("utf-16"),
    "UTF-16 without one": lambda body: body.decode().encode("utf-16-le"),
    "UTF-32": lambda body: body.decode().encode("utf-32"),
    "a space before": lambda body: b" " + body,
    "a line feed after": lambda body: body + b"\n",
    "a null byte after": lambda body: body + b"\0",
    "a second value": lambda body: body + b"{}",
    "an end that is cut off": lambda body: body[:-1],
    "a character that is cut off at the end": lambda body: body + b"\xe2\x82",
    "a repeated member of the envelope": lambda body: body.replace(b'{"causation"', b'{"causation":{},"causation"'),
    "members in another order": lambda body: b'{"type":"case-created-v1",' + body[1:-26] + b"}",
    "a revision with a fraction": lambda body: body.replace(b'"recordRevision":1', b'"recordRevision":1.0'),
    "nothing": lambda _: b"",
    "white space alone": lambda _: b" \n",
    "null": lambda _: b"null",
    "a list": lambda _: b"[]",
    "a text": lambda _: b'"case"',
    "a number": lambda _: b"1",
    "no JSON": lambda _: b"\x7b\x22\x6b\x22\x3a\x22\xff\x22\x7d",
    "zeros": lambda _: bytes(1000),
}


def with_value(value: bytes) -> Delivery:
    event, body = raw_envelope(b'{"caseId":"C-1","x":' + value + b"}")
    return Delivery(event=event, body=body)


def halves(body: bytes) -> list[bytes]:
    middle = len(body) // 2
    return [part for part in (body[:middle], body[middle:]) if part]


@pytest.mark.parametrize("value", CANONICAL.values(), ids=CANONICAL.keys())
def test_an_event_in_canonical_form_is_admitted(value: bytes, server: Gatehouse) -> None:
    delivery = with_value(value)
    admitted = server.deliver(delivery)
    assert admitted.status == 204
    assert server.deliver(delivery, chunks=halves(delivery.body)).run == admitted.run


@pytest.mark.parametrize("value", NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_an_event_in_any_other_form_is_refused_and_nothing_is_stored(value: bytes, server: Gatehouse) -> None:
    refuse(with_value(value), server)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_body_that_is_not_the_canonical_envelope_is_refused_and_nothing_is_stored(
    change: Change, server: Gatehouse
) -> None:
    event = envelope()
    delivery = Delivery(event=event)
    delivery.body = change(rfc8785.dumps(event))
    assert delivery.body != rfc8785.dumps(event)
    refuse(delivery, server)


def refuse(delivery: Delivery, server: Gatehouse) -> None:
    before = server.rows()
    assert server.deliver(delivery).outcome == INVALID
    assert server.deliver(delivery, chunks=halves(delivery.body)).outcome == INVALID
    assert server.rows() == before
    # The identity is free: the same event in its canonical form is admitted.
    assert server.deliver(Delivery(event=envelope(id=delivery.event["id"]))).status == 204


def test_what_unicode_allows_reaches_the_run(server: Gatehouse) -> None:
    name = "\0 \x1f 😀 \ufb33 \u0080"
    run = server.deliver(Delivery(event=envelope(data={"caseId": name}))).run
    with server.database() as database:
        row = database.execute("SELECT input FROM runs WHERE run_id = ?", [run.replace("-", "")]).fetchone()
    assert json.loads(row[0]) == {"caseId": name}
