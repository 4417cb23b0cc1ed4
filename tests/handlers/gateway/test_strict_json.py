from __future__ import annotations

import gc
import json
import random
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import orjson
import pytest
import rfc8785
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from handlers.gateway.strict_json import NotStrictJson, loads, loads_as, loads_canonical
from tests.handlers.gateway import reference_json
from tests.handlers.gateway.reference_json import Verdict
from tests.support.effort import tries

MEBIBYTE = 1 << 20


def accepts(read: Callable[[bytes], object], raw: bytes) -> bool:
    try:
        read(raw)
    except NotStrictJson:
        return False
    return True


def verdict(raw: bytes) -> Verdict:
    canonical, strict = accepts(loads_canonical, raw), accepts(loads, raw)
    assert strict or not canonical
    return "canonical" if canonical else "strict" if strict else "refused"


# RFC 8785, section 3.2.2 and 3.2.3, and the numbers of its Appendix B.

RFC_SAMPLE = rb"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
RFC_SAMPLE_CANONICAL = (
    b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
)
RFC_KEYS = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
RFC_NUMBERS = {
    "0000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
# Canonical, but an integer token that stands for another number than its digits say.
RFC_INEXACT = {
    "4430000000000000": "295147905179352830000",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
}


def test_the_rfcs_sample_is_strict_and_its_canonical_form_is_canonical() -> None:
    assert verdict(RFC_SAMPLE) == "strict"
    assert verdict(RFC_SAMPLE_CANONICAL) == "canonical"
    assert loads(RFC_SAMPLE) == loads_canonical(RFC_SAMPLE_CANONICAL)


def test_the_rfcs_keys_are_canonical_in_the_order_of_utf_16_code_units_only() -> None:
    def body(keys: list[str]) -> bytes:
        return orjson.dumps(dict.fromkeys(keys, 1))

    assert verdict(body(RFC_KEYS)) == "canonical"
    assert verdict(body(sorted(RFC_KEYS))) == "strict"
    for at in range(len(RFC_KEYS) - 1):
        swapped = [*RFC_KEYS[:at], RFC_KEYS[at + 1], RFC_KEYS[at], *RFC_KEYS[at + 2 :]]
        assert verdict(body(swapped)) == "strict"


@pytest.mark.parametrize("template", ["%s", "[%s]", '{"a":%s}', '{"a":[0,%s],"b":"x"}'])
@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS.items())
def test_the_rfcs_numbers_are_canonical(bits: str, text: str, template: str) -> None:
    assert float(text) == struct.unpack(">d", bytes.fromhex(bits))[0]
    assert verdict((template % text).encode()) == "canonical"


@pytest.mark.parametrize(("bits", "text"), RFC_INEXACT.items())
def test_an_integer_that_binary64_only_rounds_is_refused_although_canonical(bits: str, text: str) -> None:
    number = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert rfc8785.dumps(number) == text.encode()
    assert verdict(text.encode()) == "strict"
    with pytest.raises(NotStrictJson, match="binary64"):
        loads_canonical(text.encode())


@pytest.mark.parametrize(
    "text",
    ["9007199254740994", "-9007199254740994", "1e+21", "0.000001", "100000000000000000000", "10000000000000000",
     "9007199254740991", "0.00001", "1e-7", "0.5", "123456789012345680", "18446744073709552000", "-1",
     "5e-324"],
)  # fmt: skip
def test_a_canonical_number_passes(text: str) -> None:
    exact = "." in text or "e" in text or int(text) == float(text)
    assert verdict(f'{{"n":{text}}}'.encode()) == ("canonical" if exact else "strict")
    assert reference_json.verdict(f'{{"n":{text}}}'.encode()) == ("canonical" if exact else "strict")


@pytest.mark.parametrize(
    "text",
    ["9007199254740993", "-9007199254740993", "1e21", "1E+21", "1.0", "1e2", "-0", "-0.0", "0.0", "1e+16", "1e16",
     "1e+20", "1e-6", "1.5e-6", "1e-5", "1.50", "0.10", "100000000000000000001", "18446744073709551615",
     "18446744073709551616", "9223372036854775807", "1e+021", "1e-07", "0e0", "1.0e+21", "1" + "0" * 21,
     "1" + "0" * 300, "1e-400"],
)  # fmt: skip
@pytest.mark.parametrize("template", ["%s", "[%s]", "[1,%s,2]", '{"a":%s}', '{"a":%s,"b":1}', '{"a":[{"b":%s}]}'])
def test_another_spelling_of_a_number_is_strict_but_not_canonical(text: str, template: str) -> None:
    raw = (template % text).encode()
    assert verdict(raw) == reference_json.verdict(raw) == "strict"


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "nan", "1e400", "-1e309", "9" * 5000, "-" + "9" * 5000, "01", "-01", "+1",
     ".5", "1.", "1e", "1e+", "-", "0x10", "1_000", "\u0663", "--1"],
)  # fmt: skip
@pytest.mark.parametrize("template", ["%s", "[%s]", '{"a":%s}'])
def test_what_is_no_number_of_binary64_is_refused(text: str, template: str) -> None:
    raw = (template % text).encode()
    assert verdict(raw) == reference_json.verdict(raw) == "refused"


@pytest.mark.parametrize("digits", [4299, 4300, 4301, 5000, 100_000])
def test_an_integer_beyond_pythons_own_limit_is_refused_without_reaching_it(digits: int) -> None:
    assert sys.get_int_max_str_digits() < 100_000
    assert verdict(b'{"n":%s}' % (b"7" * digits)) == "refused"
    assert verdict(b'{"n":0.%s}' % (b"7" * digits)) == "strict"
    assert verdict(b'{"n":%se-%d}' % (b"7" * digits, digits)) == "strict"


@pytest.mark.parametrize(
    "raw",
    [b"", b" ", b"\xef\xbb\xbf{}", b"{}\x00", b"\x00{}", '{"a":1}'.encode("utf-16"), '{"a":1}'.encode("utf-16-le"),
     '{"a":1}'.encode("utf-16-be"), '{"a":1}'.encode("utf-32"), b'{"k":"\xff"}', b'["\xc0\xaf"]', b'["\xe2\x82',
     b'["\xe2\x82"]', b'["\xed\xa0\x80"]', b'["\xf4\x90\x80\x80"]', b'["\x80"]', b"[]]", b"[1,]", b"{,}", b'{"a"}',
     b'{"a":}', b"{a:1}", b"{'a':1}", b"[1 2]", b"nul", b"True", b"// x\n1", b'"\t"', b'"\x1f"', b'"a', b'"\\',
     b'"\\x41"', b'"\\u12"', b'"\\u 123"', b"[", b"{", rb'"\ud800"', rb'"\udc00"', rb'"\ud800\ud800"',
     rb'"\ud800\u0041"', rb'"\udc00\ud800"', rb'{"\udfff":1}', b"1 1", b"\xa0[]"],
)  # fmt: skip
def test_what_is_no_json_in_utf_8_is_refused(raw: bytes) -> None:
    assert verdict(raw) == reference_json.verdict(raw) == "refused"


@pytest.mark.parametrize(
    "raw",
    [rb'["\u0041"]', rb'["\u20ac"]', rb'["\/"]', rb'["\u000A"]', rb'["\u000a"]', rb'["\u001F"]', rb'["\u0008"]',
     rb'["\u0022"]', rb'["\u005c"]', rb'["\ud83d\ude00"]', rb'["\u007f"]', b"[ ]", b"[1, 2]", b' {"a":1}',
     b'{"a":1}\n', b'{"b":1,"a":2}', b'{"aa":1,"a":2}', b'{"":1," ":2,"!":3,"\\u0020a":4}', b"\t[]"],
)  # fmt: skip
def test_needless_escapes_spaces_and_another_order_are_strict_but_not_canonical(raw: bytes) -> None:
    assert verdict(raw) == reference_json.verdict(raw) == "strict"


@pytest.mark.parametrize(
    "raw",
    [b"{}", b"[]", b"null", b"true", b'""', b"0", b'["\x7f"]', rb'["\b\t\n\f\r\"\\"]', rb'["\u0000\u001f\u000b"]',
     b'["/"]', '["\u2028\u00e9\U0001f600"]'.encode(), b'{"":1,"a":2,"aa":3,"b":4}', b'{"A":1,"a":2}',
     b'{"1":1,"10":2,"2":3}'],
)  # fmt: skip
def test_a_canonical_body_passes(raw: bytes) -> None:
    assert verdict(raw) == reference_json.verdict(raw) == "canonical"
    assert loads(raw) == loads_canonical(raw) == json.loads(raw)


@pytest.mark.parametrize("last", ["\ue000", "\uf000", "\ufb33", "\uffff", "\u20ac", "\ud7ff"])
@pytest.mark.parametrize("first", ["\U00010000", "\U0001f600", "\U0010ffff"])
def test_a_supplementary_key_stands_where_its_surrogates_do(first: str, last: str) -> None:
    ordered = sorted([first, last], key=lambda key: key.encode("utf-16-be"))
    assert verdict(orjson.dumps(dict.fromkeys(ordered, 0))) == "canonical"
    assert verdict(orjson.dumps(dict.fromkeys(reversed(ordered), 0))) == "strict"
    assert verdict(orjson.dumps({"x": {"y" + key: 0 for key in ordered}})) == "canonical"


def nested(levels: int, opening: str, closing: str, leaf: str = "") -> bytes:
    return (opening * levels + leaf + closing * levels).encode()


@pytest.mark.parametrize(
    ("times", "opening", "closing"),
    [(64, "[", "]"), (64, '{"a":', "}"), (32, '[{"a":', "}]"), (32, '[1,{"a":"[{","b":', "}]")],
)
def test_sixty_four_levels_pass_and_one_more_does_not(times: int, opening: str, closing: str) -> None:
    for leaf in ("0", '"["'):
        assert verdict(nested(times, opening, closing, leaf)) == "canonical"
    for leaf in ("[]", "{}", "[0]", '{"a":0}'):
        assert verdict(nested(times, opening, closing, leaf)) == "refused"


@pytest.mark.parametrize("levels", [65, 128, 253, 254, 255, 1000, 1024, 1025, 10_000, 100_000, MEBIBYTE])
def test_deep_bodies_are_refused_at_every_depth(levels: int) -> None:
    for raw in (nested(levels, "[", "]"), nested(levels, '{"a":', "}", "1"), b"[" * levels, b'[{"a":' * levels):
        assert verdict(raw) == "refused"


def test_depth_is_counted_and_not_the_number_of_brackets() -> None:
    wide = b"[" + b",".join([nested(63, "[", "]")] * 100) + b"]"
    assert verdict(wide) == "canonical"
    assert verdict(b"[" + wide + b"]") == "refused"
    assert verdict(orjson.dumps("[{" * 1000)) == "canonical"
    assert verdict(orjson.dumps([["]" * 100, "[" * 100]])) == "canonical"


@pytest.mark.parametrize(
    "raw",
    [b'{"a":1,"a":1}', b'{"a":1,"a":2}', b'{"a":1,"b":2,"a":1}', rb'{"a":1,"\u0061":1}', b'{"a":"x","a":"y"}',
     b'{"":1,"":1}', b'[{"a":[{"b":1,"b":1}]}]', b'{"a":{"a":{"a":1,"a":2}}}', rb'{"a\"":1,"a\u0022":1}',
     rb'{"\\":1,"\u005c":1}', rb'{"\"":"\\\"","\u0022":"\""}', b'{"a" : 1 , "a" : 1}',
     rb'{"k":"\u0022\u0022","k":1}', rb'{"k":1,"k":"\"\""}', '{"\u00e9":1,"\\u00e9":2}'.encode(),
     '{"\U0001f600":1,"\\ud83d\\ude00":2}'.encode(), b'{"a":[],"a":[]}', b'{"a":null,"a":null}'],
)  # fmt: skip
def test_a_repeated_member_is_refused_at_any_depth_and_however_it_is_spelled(raw: bytes) -> None:
    assert verdict(raw) == reference_json.verdict(raw) == "refused"
    assert verdict(nested(40, "[", "]", raw.decode())) == "refused"
    assert verdict(b"[" + raw + b"," + b",".join([b"[]"] * 100) + b"]") == "refused"


@pytest.mark.parametrize(
    "raw",
    [rb'{"a\\":1,"a":2}', rb'{"\\\\\"":"\\","b":"\\\""}', rb'{"\u0022":"\u0022","\\":"\u005c\""}',
     rb'["\\\\","\\\"\\"]', b'{"a":{"b":1},"b":{"a":1}}', b'[{"a":1},{"a":1}]'],
)  # fmt: skip
def test_members_that_only_look_alike_are_not_taken_for_repeated_ones(raw: bytes) -> None:
    assert reference_json.verdict(raw) != "refused"
    assert verdict(raw) == reference_json.verdict(raw)


@pytest.mark.parametrize("read", [loads, loads_canonical])
@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"secret', "not JSON"),
        (b'{"n":%s}' % (b"9" * 5000), "not JSON"),
        (b'{"secret":1,"secret":2}', "repeats|canonical"),
        (b'{"a":' * 65 + b'"secret"' + b"}" * 65, "64 levels"),
    ],
)
def test_the_reason_is_a_fixed_phrase(read: Callable[[bytes], object], raw: bytes, reason: str) -> None:
    with pytest.raises(NotStrictJson, match=reason) as refusal:
        read(raw)
    assert "secret" not in str(refusal.value)
    assert "999" not in str(refusal.value)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_the_collector_is_left_as_it_was() -> None:
    large = b"[" + b",".join([b"[]"] * 40_000) + b"]"
    loads(large)
    assert not accepts(loads, large + b"]")
    assert gc.isenabled()
    gc.disable()
    try:
        loads(large)
        assert not gc.isenabled()
    finally:
        gc.enable()


# Hostile bodies of four mebibytes: each comes to an answer, and the suite's time limit is what bounds it.

HOSTILE = {
    "empty arrays": b"[" + b",".join([b"[]"] * (4 * MEBIBYTE // 3 - 1)) + b"]",
    "backslashes": b'"' + b"\\\\" * (2 * MEBIBYTE - 1) + b'"',
    "quotes": b'"' + b'\\"' * (2 * MEBIBYTE - 1) + b'"',
    "escapes": b'"' + b"\\u0022" * (4 * MEBIBYTE // 6 - 1) + b'"',
    "digits": b"1" * (4 * MEBIBYTE),
    "fraction": b"0." + b"3" * (4 * MEBIBYTE - 2),
    "opening": b"[" * (4 * MEBIBYTE),
    "spaces": b" " * (4 * MEBIBYTE - 1) + b"1",
    "repeated": b"{" + b",".join([b'"a":1'] * (4 * MEBIBYTE // 6 - 1)) + b"}",
    "floats": b"[1e+21," + b",".join([b"1.5"] * (MEBIBYTE - 2)) + b"]",
    "small floats": b"[" + b",".join([b"0.000001"] * (4 * MEBIBYTE // 9)) + b",1.0]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_come_to_an_answer(name: str) -> None:
    expected: Verdict
    if name in ("empty arrays", "backslashes", "quotes", "floats"):
        expected = "canonical"
    else:
        expected = "refused" if name in ("digits", "opening", "repeated") else "strict"
    assert verdict(HOSTILE[name]) == expected


# Tens of thousands of bodies against the reference: values made of what is hard, written canonically or nearly so.

SEED = 8785
TEXTS = ["", "a", "b", "aa", "\u00e9", "\u20ac", "\ufb33", "\uffff", "\U0001f600", "\ud7ff", '"', "\\", '\\":', "/",
         "\n", "\x00", "\x7f", "1.0,", "e+1", ",5.5", "[[{{", "x" * 40, "e-6,"]  # fmt: skip
TOKENS = ["0", "-0", "1", "-1", "7", "1.0", "1.5", "-2.25", "1e2", "1e21", "1e+21", "1e-7", "1e-6", "0.000001",
          "0.00000123", "1e-5", "0.00001", "0.1", "0.10", "100", "9007199254740991", "9007199254740992",
          "9007199254740993", "9007199254740994", "10000000000000000", "1e+16", "100000000000000000000",
          "295147905179352830000", "123456789012345680000", "18446744073709551615", "18446744073709552000", "1e400",
          "1E5", "333333333.3333333", "5e-324", "01", "NaN"]  # fmt: skip


def a_number(chance: random.Random) -> str:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(TOKENS)
    if kind == 1:
        return str(chance.randrange(-1000, 1000))
    if kind == 2:
        return reference_json.number(struct.unpack(">d", struct.pack(">Q", chance.getrandbits(62)))[0])
    return reference_json.number(chance.uniform(-1, 1) * 10.0 ** chance.randrange(-9, 24))


def a_string(chance: random.Random) -> str:
    text = chance.choice(TEXTS) + chance.choice(TEXTS)
    canonical = reference_json.canonical(text)
    kind = chance.randrange(30)
    if kind == 0:
        return json.dumps(text)
    if kind == 1:
        return '"' + "".join(f"\\u{ord(character):04X}" for character in text if character < "\U00010000") + '"'
    if kind == 2:
        return canonical.replace("/", "\\/")
    return canonical


def a_body(chance: random.Random, level: int = 0) -> str:
    kind = chance.randrange(8 if level < 4 else 5)
    space = " " if chance.randrange(200) == 0 else ""
    if kind < 2:
        return a_number(chance) + space
    if kind < 4:
        return a_string(chance) + space
    if kind == 4:
        return chance.choice(
            ["null", "true", "false", "[]", "{}", nested(chance.choice([60, 61, 64]), "[", "]").decode()]
        )
    if kind == 5:
        return "[" + space + ",".join(a_body(chance, level + 1) for _ in range(chance.randrange(4))) + "]"
    return an_object(chance, level, space)


def an_object(chance: random.Random, level: int, space: str) -> str:
    names = [a_string(chance) for _ in range(chance.randrange(5))]
    if chance.randrange(10):
        names = list(dict.fromkeys(names))
    if chance.randrange(10):
        names.sort(key=lambda name: reference_json.Reader(name.encode()).string().encode("utf-16-be"))
    return "{" + ",".join(f"{name}:{space}{a_body(chance, level + 1)}" for name in names) + "}"


BODIES = tries(40_000, elsewhere=4_000)


def bodies(count: int) -> Iterator[bytes]:
    chance = random.Random(SEED)
    for _ in range(count):
        raw = bytearray(a_body(chance).encode())
        if chance.randrange(10) == 0:
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        yield bytes(raw)


def test_thousands_of_bodies_are_judged_as_the_reference_judges_them() -> None:
    tally: Counter[Verdict] = Counter()
    for raw in bodies(BODIES):
        expected = reference_json.verdict(raw)
        assert (verdict(raw), raw) == (expected, raw)
        tally[expected] += 1
    assert min(tally.values()) > BODIES // 10


def test_the_reference_writes_numbers_as_the_rfc8785_package_does() -> None:
    chance = random.Random(SEED)
    for _ in range(tries(20_000, elsewhere=5_000)):
        number = struct.unpack(">d", struct.pack(">Q", chance.getrandbits(64)))[0]
        if number - number == 0:
            assert reference_json.number(number).encode() == rfc8785.dumps(number)


def test_every_magnitude_of_binary64_is_canonical_as_the_reference_writes_it_and_changed_is_not() -> None:
    chance = random.Random(SEED)
    for exponent in range(2047):
        for mantissa in (0, 1, (1 << 52) - 1, chance.getrandbits(52)):
            number = struct.unpack(">d", struct.pack(">Q", exponent << 52 | mantissa))[0]
            raw = b'{"n":[%s]}' % reference_json.number(number).encode()
            assert (verdict(raw), raw) == (reference_json.verdict(raw), raw)
            longer = b'{"n":[%s]}' % f"{number:.20e}".encode()
            assert (verdict(longer), longer) == ("strict", longer)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**53, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@seed(SEED)
@settings(max_examples=tries(500, elsewhere=150), database=None, deadline=None)
@given(values)
def test_what_the_rfc8785_package_writes_is_canonical_and_comes_back_equal(value: object) -> None:
    raw = rfc8785.dumps(value)  # type: ignore[arg-type]
    assert reference_json.verdict(raw) == verdict(raw)
    if verdict(raw) == "canonical":
        assert loads_canonical(raw) == value
    assert loads(json.dumps(value).encode()) == value


@seed(SEED)
@settings(max_examples=tries(2_000, elsewhere=500), database=None, deadline=None)
@given(st.binary(max_size=30))
def test_any_bytes_are_judged_as_the_reference_judges_them(raw: bytes) -> None:
    assert verdict(raw) == reference_json.verdict(raw)


class Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str | msgspec.UnsetType = msgspec.UNSET
    kin: list[Named] | msgspec.UnsetType = msgspec.UNSET


named = msgspec.json.Decoder(Named)


@pytest.mark.parametrize(
    ("raw", "taken"),
    [
        (b"{}", True),
        (b'{"name":"a","kin":[{"name":"b"}]}', True),
        (b' { "kin" : [ { } ] , "n\\u0061me" : "\\u0022" } ', True),
        (b'{"name":"a","name":"a"}', False),
        (b'{"kin":[],"kin":[{}]}', False),
        (b'{"name":"\\"","n\\u0061me":"\\u0022"}', False),
        (b'{"other":1}', False),
        (b'{"name":"\xff"}', False),
        (b'{"name":"\\udc00"}', False),
        (b"[]", False),
        (b"{", False),
        (b"", False),
    ],
)
def test_a_body_is_read_as_a_type_where_it_is_strict_and_nothing_is_dropped(raw: bytes, taken: bool) -> None:
    found = loads_as(named, raw)
    assert (found is not None) == taken
    if found is not None:
        assert msgspec.to_builtins(found) == loads(raw)
